//! Signatures of handlers: the types of parameters and results.

use crate::options::Kind;
use proc_macro2::Span;
use quote::{ToTokens, format_ident};
use syn::spanned::Spanned;
use syn::{
    Error, FnArg, GenericArgument, Ident, ItemFn, Lifetime, Pat, PathArguments, PathSegment, Result,
    ReturnType, Type,
};

/// Limits of a schema, as in `ringcall_wire::schema`.
const MAX_ARGS: usize = 8;
const MAX_RESULTS: usize = 4;

pub(crate) struct Signature {
    pub(crate) kind: Kind,
    pub(crate) shape: Shape,
    /// The names of its parameters after the team's.
    pub(crate) names: Vec<Ident>,
    /// The type it returns; `()` where none is written.
    pub(crate) returns: Type,
}

pub(crate) enum Shape {
    /// Bytes of any length in and out.
    Untyped,
    /// Arguments, then out-parameters.
    Typed { args: Vec<Type>, outs: Vec<Type> },
}

impl Signature {
    pub(crate) fn of(function: &ItemFn, kind: Kind) -> Result<Self> {
        refuse_special(function)?;
        let (mut parameters, mut names) = (Vec::new(), Vec::new());
        for (index, input) in function.sig.inputs.iter().enumerate() {
            match input {
                FnArg::Typed(parameter) => {
                    parameters.push((*parameter.ty).clone());
                    // A pattern has no name.
                    names.push(match &*parameter.pat {
                        Pat::Ident(pattern) => pattern.ident.clone(),
                        _ => format_ident!("parameter_{index}"),
                    });
                }
                FnArg::Receiver(this) => {
                    return Err(Error::new(this.span(), "a handler is a free function, without `self`"));
                }
            }
        }
        let payload = team(&parameters, kind, function.sig.paren_token.span.join())?;
        let returns = match &function.sig.output {
            ReturnType::Default => syn::parse_quote_spanned! { function.sig.ident.span()=> () },
            ReturnType::Type(_, returns) => (**returns).clone(),
        };
        let shape =
            if payload.iter().any(is_slice) { untyped(payload, kind)? } else { typed(payload, kind)? };
        names.drain(..parameters.len() - payload.len());
        Ok(Self { kind, shape, names, returns })
    }
}

/// Functions that cannot be called from a table.
fn refuse_special(function: &ItemFn) -> Result<()> {
    let sig = &function.sig;
    let refuse = |tokens: &dyn ToTokens, says: &str| Err(Error::new_spanned(TokensOf(tokens), says));
    if let Some(word) = &sig.asyncness {
        return refuse(word, "a handler cannot be async: it answers before it returns");
    }
    // (By its first token, since the word is not always a plain `unsafe`.)
    if let Some(word) = first_token(&sig.clone(), "unsafe") {
        return Err(Error::new(word, "a handler cannot be unsafe: the dispatcher has no contract to keep"));
    }
    if !sig.generics.params.is_empty() {
        let says = "a handler cannot be generic: its schema is fixed (lifetimes can be left out: `&[u8; 8]`, \
                    `Bits<'_, 128>`)";
        return refuse(&sig.generics, says);
    }
    if let Some(dots) = &sig.variadic {
        return refuse(dots, "a handler has a fixed number of parameters");
    }
    Ok(())
}

/// The span of `word` among a signature's own tokens before `fn`.
fn first_token(sig: &syn::Signature, word: &str) -> Option<Span> {
    let before = sig.to_token_stream().into_iter().take_while(|token| token.to_string() != "fn");
    before.into_iter().find(|token| token.to_string() == word).map(|token| token.span())
}

/// Lets a `dyn ToTokens` be spanned.
struct TokensOf<'a>(&'a dyn ToTokens);

impl ToTokens for TokensOf<'_> {
    fn to_tokens(&self, tokens: &mut proc_macro2::TokenStream) {
        self.0.to_tokens(tokens);
    }
}

/// Checks the parameter for the team; the parameters after it.
fn team(parameters: &[Type], kind: Kind, parentheses: Span) -> Result<&[Type]> {
    let is_team = |ty: &&Type| ["Warp", "Block", "Grid"].iter().any(|name| segment(ty, name).is_some());
    if kind == Kind::Thread {
        return match parameters.iter().find(is_team) {
            Some(team) => {
                let says = "a thread handler has no team: write `kind = \"warp\"` or `kind = \"grid\"` in its attribute";
                Err(Error::new_spanned(team, says))
            }
            None => Ok(parameters),
        };
    }
    let (word, team) = (kind.word(), kind.ident().to_string());
    let says = format!("the first parameter of a {word} handler, and only that, is `{team}<'_>`");
    match parameters.split_first() {
        Some((first, rest)) if segment(first, &team).is_some() => match rest.iter().find(is_team) {
            Some(second) => Err(Error::new_spanned(second, says)),
            None => Ok(rest),
        },
        Some((first, _)) => Err(Error::new_spanned(first, says)),
        None => Err(Error::new(parentheses, says)),
    }
}

/// Bytes of any length: exactly a slice in and a slice out.
fn untyped(payload: &[Type], kind: Kind) -> Result<Shape> {
    let says = if kind == Kind::Thread {
        "bytes of unknown length are for untyped handlers: exactly `(&[u8], &mut [u8]) -> usize` or \
         `-> Result<usize, Status>`; otherwise give the length, as in `&[u8; 16]`"
    } else {
        "bytes of unknown length are for untyped handlers: exactly `&[u8], Output<'_, [u8]>` after the team, and \
         `-> usize` or `-> Result<usize, Status>`; otherwise give the length, as in `&[u8; 16]`"
    };
    let fits = match payload {
        [Type::Reference(input), output] => {
            let output_fits = match output {
                Type::Reference(output) => kind == Kind::Thread && output.mutability.is_some(),
                output => kind != Kind::Thread && segment(output, "Output").is_some(),
            };
            input.mutability.is_none() && output_fits && payload.iter().all(is_slice)
        }
        _ => false,
    };
    if fits {
        return Ok(Shape::Untyped);
    }
    Err(Error::new_spanned(payload.iter().find(|ty| is_slice(ty)), says))
}

/// Values that a schema describes.
fn typed(payload: &[Type], kind: Kind) -> Result<Shape> {
    let (mut args, mut outs) = (Vec::new(), Vec::new());
    for ty in payload {
        let refuse = |says: &str| Err(Error::new_spanned(ty, says));
        let exclusive = matches!(ty, Type::Reference(reference) if reference.mutability.is_some())
            || segment(ty, "BitsMut").is_some();
        let shared = segment(ty, "Output").is_some();
        match (kind, exclusive, shared) {
            (Kind::Thread, _, true) => {
                return refuse(
                    "a thread handler writes its result through `&mut`: `Output` is for warps and grids",
                );
            }
            (Kind::Warp | Kind::Grid, true, _) => {
                return refuse(
                    "many threads write this result at once: take an `Output<'_, T>`, as in `Output<'_, [u8; 16]>`",
                );
            }
            _ => {}
        }
        if exclusive || shared {
            outs.push(ty.clone());
            if outs.len() > MAX_RESULTS {
                return refuse("a handler has at most 4 results");
            }
        } else if outs.is_empty() {
            args.push(ty.clone());
            if args.len() > MAX_ARGS {
                return refuse("a handler has at most 8 arguments");
            }
        } else {
            return refuse("arguments come before the out-parameters");
        }
    }
    Ok(Shape::Typed { args, outs })
}

/// The last segment of a path type, if it is `name`.
fn segment<'a>(ty: &'a Type, name: &str) -> Option<&'a PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last().filter(|segment| segment.ident == name),
        _ => None,
    }
}

/// `&[T]`, `&mut [T]`, or `Output<'_, [T]>`.
fn is_slice(ty: &Type) -> bool {
    match ty {
        Type::Reference(reference) => matches!(*reference.elem, Type::Slice(_)),
        ty => match segment(ty, "Output").map(|segment| &segment.arguments) {
            Some(PathArguments::AngleBracketed(list)) => {
                list.args.iter().any(|argument| matches!(argument, GenericArgument::Type(Type::Slice(_))))
            }
            _ => false,
        },
    }
}

/// The type of an out-parameter with every lifetime that it leaves out said to be `'static`: for places that have none to infer.
pub(crate) fn without_lifetimes(ty: &Type) -> Type {
    let forever = || Lifetime::new("'static", Span::call_site());
    let mut ty = ty.clone();
    match &mut ty {
        Type::Reference(reference) => reference.lifetime = Some(forever()),
        Type::Path(path) => {
            if let Some(PathArguments::AngleBracketed(list)) =
                path.path.segments.last_mut().map(|segment| &mut segment.arguments)
            {
                let mut has_lifetime = false;
                for argument in &mut list.args {
                    if let GenericArgument::Lifetime(lifetime) = argument {
                        *lifetime = forever();
                        has_lifetime = true;
                    }
                }
                if !has_lifetime {
                    list.args.insert(0, GenericArgument::Lifetime(forever()));
                }
            }
        }
        _ => {}
    }
    ty
}
