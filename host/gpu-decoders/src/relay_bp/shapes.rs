//! PTX of the kernel's shapes, in the order in which they are tried.

use ringcall_bp::kernel::{KernelShape, SHAPES};

macro_rules! ptx {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../kernels-cu/relay/ptx/", $name, ".sm_90.ptx")))
    };
}

/// Name and text of each shape of [`SHAPES`].
const TEXTS: [(&str, &str); SHAPES.len()] =
    [ptx!("bb72_8"), ptx!("bb144_16n"), ptx!("bb144_8"), ptx!("wide_16"), ptx!("deep_16")];

/// The shapes with their texts.
pub(crate) fn all() -> impl Iterator<Item = (&'static KernelShape, &'static str)> {
    SHAPES.iter().zip(TEXTS).map(|(shape, (_, text))| (shape, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_has_its_text() {
        for (shape, (name, text)) in SHAPES.iter().zip(TEXTS) {
            assert_eq!(shape.name, name);
            for entry in
                [".entry ringcall_relay(", "ringcall_relay_participate(", "ringcall_relay_params[112]"]
            {
                assert!(text.contains(entry), "{name} has no {entry}");
            }
            assert!(text.contains(&format!(".maxntid {}", shape.threads)), "{name}");
        }
    }
}
