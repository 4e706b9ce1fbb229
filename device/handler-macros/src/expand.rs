//! Code generation of the `handler` attribute.

use crate::options::{HandlerOptions, Kind};
use crate::signature::{Shape, Signature, without_lifetimes};
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Ident, ItemFn, Result, Type};

/// A type without values that shares the function's name (types and functions do not collide), with the descriptor as
/// its constant; and, on a device, the exported function.
pub(crate) fn expand(
    function: &ItemFn,
    signature: &Signature,
    options: &HandlerOptions,
) -> Result<TokenStream> {
    let (name, vis) = (&function.sig.ident, &function.vis);
    let krate = options.path();
    let cfgs: Vec<&Attribute> = function.attrs.iter().filter(|a| a.path().is_ident("cfg")).collect();
    let wire_name = options.name(name);
    let symbol = options.symbol(name);
    let symbol_name = symbol.to_string();
    let kind = signature.kind.ident();
    let schema = schema(&krate, signature);
    let run = run(name, &krate, signature);
    let native = native(&krate, signature.kind);
    let call = call(name, &krate, signature);
    let parameters = match &signature.shape {
        Shape::Untyped => Vec::new(),
        Shape::Typed { .. } => signature.names.iter().map(|name| plain(name).to_string()).collect(),
    };
    let export = export(name, &symbol, &krate, signature.kind);
    let about = format!("The handler [`{name}`](fn@{name}): a type without values that has its descriptor.");
    Ok(quote! {
        #(#cfgs)*
        #[doc = #about]
        #[allow(non_camel_case_types, dead_code, missing_debug_implementations)]
        #vis enum #name {}

        #(#cfgs)*
        #[allow(dead_code, clippy::unused_unit)]
        impl #name {
            /// Name, kind, schema, device symbol and, on a CPU, the function itself.
            #vis const HANDLER: #krate::Handler = #krate::Handler {
                name: #wire_name,
                kind: #krate::HandlerKind::#kind,
                schema: Self::SCHEMA,
                symbol: #symbol_name,
                #[cfg(not(target_arch = "nvptx64"))]
                native: Self::native,
                #[cfg(not(target_arch = "nvptx64"))]
                parameters: &[#(#parameters),*],
            };
            const SCHEMA: #krate::HandlerSchema = #schema;
            const LENGTHS: #krate::__private::Lengths = #krate::__private::Lengths::of(&Self::SCHEMA);
            #run
            #native
            #call
        }

        #(#cfgs)*
        const _: () = assert!(
            #name::SCHEMA.validate().is_ok(),
            "the payload of this handler is larger than a message can be: use shorter arrays",
        );

        #(#cfgs)*
        #export
    })
}

/// The schema as a constant expression. Each type is looked up at its own position in the source, so that the compiler
/// points there when it is no payload type.
fn schema(krate: &TokenStream, signature: &Signature) -> TokenStream {
    let Shape::Typed { args, outs } = &signature.shape else {
        return quote! { #krate::HandlerSchema::new() };
    };
    let args = args.iter().map(|ty| quote_spanned! { ty.span()=> <#ty as #krate::Argument<'_>>::DESC });
    let out_trait = out_trait(krate, signature.kind);
    let outs_descs = outs.iter().map(|ty| quote_spanned! { ty.span()=> <#ty as #out_trait>::DESC });
    let described = quote! { #krate::HandlerSchema::new() #(.arg(#args))* #(.result(#outs_descs))* };
    if answers_by_value(signature) {
        let returns = &signature.returns;
        let descs = quote_spanned! { returns.span()=> <#returns as #krate::Returns>::DESCS };
        quote! { #krate::__private::with_results(#described, #descs) }
    } else {
        described
    }
}

fn out_trait(krate: &TokenStream, kind: Kind) -> TokenStream {
    match kind {
        Kind::Thread => quote! { #krate::OutParam<'_> },
        Kind::Warp | Kind::Grid => quote! { #krate::OutputParam<'_> },
    }
}

/// Whether the results are what the function returns.
fn answers_by_value(signature: &Signature) -> bool {
    match &signature.shape {
        Shape::Untyped => false,
        Shape::Typed { outs, .. } => signature.kind == Kind::Thread && outs.is_empty(),
    }
}

/// `run`: checks, decodes, calls, encodes. The same on CPU and device.
fn run(name: &Ident, krate: &TokenStream, signature: &Signature) -> TokenStream {
    let private = quote! { #krate::__private };
    let team = signature.kind.ident();
    let (team_parameter, team_argument) = match signature.kind {
        Kind::Thread => (quote! {}, quote! {}),
        Kind::Warp | Kind::Grid => (quote! { team: #krate::#team<'_>, }, quote! { team, }),
    };
    let result = match signature.kind {
        Kind::Thread => quote! { &mut [u8] },
        Kind::Warp | Kind::Grid => quote! { #krate::OutBytes<'_> },
    };
    let returns = &signature.returns;
    let body = match &signature.shape {
        Shape::Untyped => {
            let output = match signature.kind {
                Kind::Thread => quote! { result },
                Kind::Warp | Kind::Grid => quote! { #krate::Output::over(result) },
            };
            let written = quote_spanned! { returns.span()=> <#returns as #krate::Written>::written };
            quote! {
                let room = result.len();
                #written(#name(#team_argument payload, #output), room)
            }
        }
        Shape::Typed { args, outs } => {
            // Bounds are checked in the very words of `schema`, so that a wrong type is reported once.
            let (args, take_args) = steps("argument", args, |ty| {
                let desc = quote_spanned! { ty.span()=> <#ty as #krate::Argument<'_>>::DESC };
                let decode = quote_spanned! { ty.span()=> <#ty as #krate::Argument<'_>>::decode };
                quote! { #decode(#private::next_argument(&mut payload, &#desc)?)? }
            });
            let (outs, take_outs) = steps("out", outs, |ty| {
                let out_trait = out_trait(krate, signature.kind);
                let next = match signature.kind {
                    Kind::Thread => quote! { next_out },
                    Kind::Warp | Kind::Grid => quote! { next_output },
                };
                let desc = quote_spanned! { ty.span()=> <#ty as #out_trait>::DESC };
                let over = quote_spanned! { ty.span()=> <#ty as #out_trait>::over };
                quote! { #over(#private::#next(&mut result, &#desc)?)? }
            });
            let answer = if answers_by_value(signature) {
                quote_spanned! { returns.span()=> <#returns as #krate::Returns>::encode(returned, result)?; }
            } else {
                quote_spanned! { returns.span()=> <#returns as #krate::Outcome>::outcome(returned)?; }
            };
            quote! {
                Self::LENGTHS.check(payload.len(), result.len())?;
                let (mut payload, mut result) = (payload, result);
                #take_args
                #take_outs
                let returned = #name(#team_argument #(#args,)* #(#outs,)*);
                #answer
                ::core::result::Result::Ok(Self::LENGTHS.results())
            }
        }
    };
    quote! {
        #[inline(always)]
        #[allow(unused_mut, unused_variables, unused_assignments, clippy::let_unit_value)]
        fn run(#team_parameter payload: &[u8], result: #result)
            -> ::core::result::Result<usize, #krate::Status>
        {
            #body
        }
    }
}

/// A local variable for each of `types`, and the statements that give it its value.
fn steps(prefix: &str, types: &[Type], value: impl Fn(&Type) -> TokenStream) -> (Vec<Ident>, TokenStream) {
    let names: Vec<_> = (0..types.len()).map(|i| format_ident!("{prefix}_{i}")).collect();
    let values = types.iter().map(value);
    let steps = quote! { #(let #names = #values;)* };
    (names, steps)
}

/// `native`: the function of a descriptor on a CPU, for any team.
fn native(krate: &TokenStream, kind: Kind) -> TokenStream {
    let call = match kind {
        Kind::Thread => quote! { { let _ = team; Self::run(payload, result) } },
        Kind::Warp => quote! {
            #krate::__private::native_warp(team, result, |warp, result| Self::run(warp, payload, result))
        },
        Kind::Grid => quote! {
            #krate::__private::native_grid(team, result, |grid, result| Self::run(grid, payload, result))
        },
    };
    quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        fn native(team: #krate::NativeTeam, payload: &[u8], result: &mut [u8])
            -> ::core::result::Result<usize, #krate::Status>
        {
            #call
        }
    }
}

/// A name without `r#`.
fn plain(name: &Ident) -> Ident {
    let text = name.to_string();
    text.strip_prefix("r#").map_or_else(|| name.clone(), |text| Ident::new(&format!("{text}_"), name.span()))
}

/// `call`: the same function on the calling side.
fn call(name: &Ident, krate: &TokenStream, signature: &Signature) -> TokenStream {
    let private = quote! { #krate::__private };
    let about = format!("Has a dispatcher elsewhere run [`{name}`](fn@{name}), and waits for its results.");
    let error = quote! { #krate::ClientError<__C::Error> };
    let Shape::Typed { args, outs } = &signature.shape else {
        return quote! {
            #[cfg(not(target_arch = "nvptx64"))]
            #[doc = #about]
            ///
            /// # Errors
            /// No answer, or one with a status. `result` has as many bytes of the answer as fit; the number is the answer's own.
            pub fn call<__C: #krate::RoundTrip>(
                client: &mut __C,
                payload: &[u8],
                result: &mut [u8],
            ) -> ::core::result::Result<usize, #error> {
                match client.round_trip(Self::HANDLER.id(), payload, result) {
                    ::core::result::Result::Err(error) => {
                        ::core::result::Result::Err(#krate::ClientError::Carrier(error))
                    }
                    ::core::result::Result::Ok((#krate::Status::OK, len)) => ::core::result::Result::Ok(len),
                    ::core::result::Result::Ok((status, _)) => {
                        ::core::result::Result::Err(#krate::ClientError::Refused(status))
                    }
                }
            }
        };
    };
    let names: Vec<_> = (0..args.len()).map(|i| format_ident!("argument_{i}")).collect();
    let write = names.iter().zip(args).map(|(argument, ty)| {
        quote_spanned! { ty.span()=>
            <#ty as #krate::Argument<'_>>::write(
                &#argument,
                #private::next_mut(&mut rest, <#ty as #krate::Argument<'_>>::DESC.size_bytes),
            );
        }
    });
    let (values, read) = if answers_by_value(signature) {
        let returns = &signature.returns;
        let values = quote_spanned! { returns.span()=> <#returns as #krate::Returns>::Values };
        let read = quote_spanned! { returns.span()=> <#returns as #krate::Returns>::read };
        (values, quote! { #read(&result) })
    } else {
        let outs: Vec<_> = outs.iter().map(without_lifetimes).collect();
        let out_trait = match signature.kind {
            Kind::Thread => quote! { #krate::OutParam<'static> },
            Kind::Warp | Kind::Grid => quote! { #krate::OutputParam<'static> },
        };
        let value = |ty: &Type| quote_spanned! { ty.span()=> <#ty as #out_trait> };
        let types: Vec<_> = outs
            .iter()
            .map(|ty| {
                let value = value(ty);
                quote! { #value::Value }
            })
            .collect();
        let reads: Vec<_> = outs
            .iter()
            .map(|ty| {
                let value = value(ty);
                quote! { #value::read(#private::next(&mut rest, <#ty as #out_trait>::DESC.size_bytes))? }
            })
            .collect();
        let (values, made) = match (&types[..], &reads[..]) {
            ([one], [read]) => (quote! { #one }, quote! { #read }),
            _ => (quote! { (#(#types,)*) }, quote! { (#(#reads,)*) }),
        };
        let read = quote! {
            (|| {
                let mut rest = &result[..];
                ::core::option::Option::Some(#made)
            })()
        };
        (values, read)
    };
    quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = #about]
        ///
        /// # Errors
        /// No answer, one with a status, or one that is no results of this handler.
        #[allow(
            unused_mut,
            unused_variables,
            unused_assignments,
            clippy::needless_question_mark,
            clippy::too_many_arguments
        )]
        pub fn call<__C: #krate::RoundTrip>(
            client: &mut __C,
            #(#names: #args,)*
        ) -> ::core::result::Result<#values, #error> {
            let mut payload = [0_u8; #name::LENGTHS.arguments()];
            let mut rest = &mut payload[..];
            #(#write)*
            let mut result = [0_u8; #name::LENGTHS.results()];
            #private::round_trip(client, Self::HANDLER.id(), &payload, &mut result)?;
            let values: ::core::option::Option<#values> = #read;
            values.ok_or(#krate::ClientError::Malformed { found: result.len(), expected: result.len() })
        }
    }
}

/// The function that a dispatcher on the device calls through its table.
///
/// It does not switch the lint `unsafe_code` off: code from another crate's macro is exempt, so that an author's crate
/// may even forbid it, and an `allow` would contradict that.
fn export(name: &Ident, symbol: &Ident, krate: &TokenStream, kind: Kind) -> TokenStream {
    let private = quote! { #krate::__private };
    let team = kind.ident();
    let (result, team) = match kind {
        Kind::Thread => (quote! { result_mut }, quote! {}),
        // All threads of the team make the call converged: it is a condition of the exported function.
        Kind::Warp | Kind::Grid => (quote! { result_out }, quote! { #krate::#team::current(), }),
    };
    quote! {
        #[cfg(target_arch = "nvptx64")]
        const _: () = {
            /// # Safety
            /// `input` and `output` are 8-byte aligned addresses of `arg_len` readable and `max_result_len`
            /// writable bytes that no other agent accesses during the call, the team's other threads apart.
            /// `result_len` is the calling thread's own. All threads of the handler's kind make the call,
            /// converged.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn #symbol(
                input: *const ::core::ffi::c_void,
                output: *mut ::core::ffi::c_void,
                arg_len: u32,
                max_result_len: u32,
                result_len: *mut u32,
            ) -> i32 {
                // SAFETY: the caller's promise about `input` and `arg_len`.
                let payload = unsafe { #private::payload(input, arg_len) };
                // SAFETY: the caller's promise about `output` and `max_result_len`.
                let result = unsafe { #private::#result(output, max_result_len) };
                let (status, len) = #private::answer(#name::run(#team payload, result));
                // SAFETY: the caller's promise about `result_len`.
                unsafe { result_len.write(len) };
                status
            }
        };
    }
}
