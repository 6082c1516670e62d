//! Kernels as worlds of the command `overlock`: the image is built, started on an emulated machine,
//! and heard.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

pub mod build;
pub mod code;
mod image;

pub use image::{Image, missing};
