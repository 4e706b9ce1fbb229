//! The attribute that makes a function a Ringcall handler.
//!
//! Use it through `ringcall-handler`, which re-exports it beside the types that its output is made of and has the
//! documentation for authors.
//!
//! | module | |
//! |---|---|
//! | `options` | the contents of the attribute's parentheses |
//! | `signature` | what the function's parameters and result are, and which functions are refused |
//! | `expand` | the code that is generated |
//!
//! Types are told apart by the traits of `ringcall-handler`, not by their names, so that aliases and
//! constants work in signatures. Only types that the compiler cannot tell in time go by name: `&mut`,
//! `Output`, `BitsMut`, `Warp`, `Grid`, and slices.

#![forbid(unsafe_code)]

mod expand;
mod options;
mod signature;

use proc_macro::TokenStream;
use syn::{ItemFn, parse_macro_input};

/// Makes a free function a handler; see the documentation of `ringcall-handler`.
///
/// ```text
/// #[handler]
/// #[handler(name = "advanced_decode", kind = "warp")]
/// ```
///
/// | key | value | default |
/// |---|---|---|
/// | `name` | the handler's name on the wire, whose hash is its id | the function's name |
/// | `kind` | `"thread"`, `"warp"` or `"grid"`: who runs it together | `"thread"` |
/// | `crate` | the path of `ringcall-handler`, where it is reached through another crate | found in Cargo.toml |
#[proc_macro_attribute]
pub fn handler(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let function = parse_macro_input!(item as ItemFn);
    let mut options = options::HandlerOptions::default();
    let parser = syn::meta::parser(|meta| options.read(&meta));
    parse_macro_input!(attribute with parser);
    let generated = signature::Signature::of(&function, options.kind())
        .and_then(|signature| expand::expand(&function, &signature, &options));
    let generated = generated.unwrap_or_else(syn::Error::into_compile_error);
    // The function stays even where it is refused as a handler: nothing else is then reported missing.
    quote::quote! { #function #generated }.into()
}
