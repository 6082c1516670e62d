//! The C and C++ interface, from outside: one question per module.

#[cfg(target_arch = "x86_64")]
mod code;
mod header;
mod install;
mod programs;
mod support;
