//! The names of `parking_lot`, which are those of `overlock-parking-lot`.
#![no_std]

#[cfg(feature = "deadlock_detection")]
compile_error!(
    "Overlock's locks can't detect deadlocks: build without parking_lot's feature \
     `deadlock_detection`, or take the patch out (compat/patch/overlock-patch remove)"
);

pub use overlock_parking_lot::*;
