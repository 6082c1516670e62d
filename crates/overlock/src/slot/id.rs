//! Identity: CPU numbers, and the names of queue nodes.

/// The most CPUs a platform may number: what fits in the 15-bit tail of a lock word beside two bits
/// of nesting level.
pub const MAX_CPUS: usize = (1 << 13) - 1;

/// The number of a CPU: less than [`MAX_CPUS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu(u16);

impl Cpu {
    /// The CPU numbered `index`, or `None` if a lock word has no room for that number.
    #[inline]
    #[must_use]
    pub const fn new(index: usize) -> Option<Self> {
        if index < MAX_CPUS { Some(Self(index as u16)) } else { None }
    }

    /// The number.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The 15-bit name of a queue node: the CPU number plus one, then two bits of nesting level. So no
/// node's name is less than four. Zero names no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(u16);

impl NodeId {
    /// The least code of a node.
    pub(crate) const LEAST: u32 = 4;

    pub(crate) const fn new(cpu: Cpu, level: usize) -> Self {
        Self(((cpu.0 + 1) << 2) | level as u16)
    }

    /// The node with this code, or `None` for a code that names none.
    #[inline]
    pub(crate) const fn decode(code: u32) -> Option<Self> {
        if code < Self::LEAST { None } else { Some(Self(code as u16)) }
    }

    /// The code: nonzero and less than 32,768.
    #[inline]
    pub(crate) const fn code(self) -> u32 {
        self.0 as u32
    }

    /// The CPU whose node this is.
    #[inline]
    pub(crate) const fn cpu(self) -> Cpu {
        Cpu((self.0 >> 2) - 1)
    }

    /// The nesting level that the node is for.
    #[inline]
    pub(crate) const fn level(self) -> usize {
        (self.0 & 3) as usize
    }
}
