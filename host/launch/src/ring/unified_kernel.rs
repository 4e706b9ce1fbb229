//! Entry points of the unified dispatchers.

use super::KernelKind;

/// Kinds of unified kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnifiedKernel {
    /// Warps on the queues of a NIC.
    Queues,
    /// A cooperative grid on the queues of a NIC.
    Grid,
    /// Warps on the queues of a NIC that launch graphs.
    Graph,
    /// One thread on a linked transport.
    Hooks,
}

impl UnifiedKernel {
    /// The unified kernel for a kind of dispatch kernel, on the queues of a NIC.
    pub(crate) const fn of(kind: KernelKind) -> Self {
        match kind {
            KernelKind::Regular { .. } => Self::Queues,
            KernelKind::Cooperative { .. } | KernelKind::Ahead { .. } => Self::Grid,
            KernelKind::Graph { .. } => Self::Graph,
        }
    }

    /// Its entry point.
    pub(crate) const fn entry(self) -> &'static str {
        match self {
            Self::Queues => "ringcall_unified",
            Self::Grid => "ringcall_unified_grid",
            Self::Graph => "ringcall_unified_graph",
            Self::Hooks => "ringcall_unified_hooks",
        }
    }
}
