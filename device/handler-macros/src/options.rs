//! Options of the `handler` attribute.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::Span;
use quote::{format_ident, quote};
use syn::meta::ParseNestedMeta;
use syn::{Ident, LitStr, Path, Result};

/// Who runs a handler together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Thread,
    Warp,
    Grid,
}

impl Kind {
    /// As in `HandlerKind`, and the name of the team's type.
    pub(crate) fn ident(self) -> Ident {
        let name = match self {
            Self::Thread => "Thread",
            Self::Warp => "Warp",
            Self::Grid => "Grid",
        };
        Ident::new(name, Span::call_site())
    }

    /// As in the attribute.
    pub(crate) fn word(self) -> String {
        self.ident().to_string().to_lowercase()
    }
}

#[derive(Default)]
pub(crate) struct HandlerOptions {
    name: Option<LitStr>,
    kind: Option<Kind>,
    path: Option<Path>,
}

impl HandlerOptions {
    /// Reads one `key = value`.
    pub(crate) fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("name") {
            let name: LitStr = meta.value()?.parse()?;
            if name.value().is_empty() {
                return Err(syn::Error::new(name.span(), "a handler's name has at least one character"));
            }
            once(&mut self.name, name, meta)
        } else if meta.path.is_ident("kind") {
            let word: LitStr = meta.value()?.parse()?;
            let kind = match word.value().as_str() {
                "thread" => Kind::Thread,
                "warp" => Kind::Warp,
                "grid" => Kind::Grid,
                _ => {
                    let says = "a handler's kind is \"thread\", \"warp\" or \"grid\"";
                    return Err(syn::Error::new(word.span(), says));
                }
            };
            once(&mut self.kind, kind, meta)
        } else if meta.path.is_ident("crate") {
            let path = meta.value()?.call(Path::parse_mod_style)?;
            once(&mut self.path, path, meta)
        } else {
            Err(meta.error("the keys of a handler are `name`, `kind` and `crate`"))
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind.unwrap_or(Kind::Thread)
    }

    /// The name on the wire.
    pub(crate) fn name(&self, function: &Ident) -> LitStr {
        let own = || LitStr::new(function.to_string().trim_start_matches("r#"), function.span());
        self.name.clone().unwrap_or_else(own)
    }

    /// The device's symbol: the name, with `_` for what cannot stand in an identifier.
    pub(crate) fn symbol(&self, function: &Ident) -> Ident {
        let letters = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = self.name(function).value().chars().map(letters).collect();
        format_ident!("ringcall_handler_{name}", span = function.span())
    }

    /// The path of `ringcall-handler` in the author's crate, under any name.
    pub(crate) fn path(&self) -> proc_macro2::TokenStream {
        if let Some(path) = &self.path {
            return quote! { #path };
        }
        let name = match crate_name("ringcall-handler") {
            Ok(FoundCrate::Name(name)) => name,
            // Its own tests, which know it by its name. Where it is not found, the compiler says so best.
            Ok(FoundCrate::Itself) | Err(_) => "ringcall_handler".to_owned(),
        };
        let name = Ident::new(&name, Span::call_site());
        quote! { ::#name }
    }
}

fn once<T>(option: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> Result<()> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("stands here twice")),
    }
}
