//! The names of `spin`, which are those of `overlock-spin`.
#![no_std]

#[cfg(feature = "portable_atomic")]
compile_error!(
    "Overlock's locks need the processor's own atomic read-modify-writes: build without spin's \
     feature `portable_atomic`, or take the patch out (compat/patch/overlock-patch remove)"
);

pub use overlock_spin::*;
