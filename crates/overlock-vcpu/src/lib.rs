#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "lab"), no_std)]

extern crate alloc;
#[cfg(test)]
extern crate self as overlock_vcpu;
#[cfg(test)]
#[macro_use]
extern crate std;

#[forbid(unsafe_code)]
pub mod host;
#[cfg(all(feature = "lab", target_arch = "x86_64", target_os = "linux"))]
pub mod lab;
