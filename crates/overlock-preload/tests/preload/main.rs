// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library is tested from outside: whole programs run with it, in C, C++ and whatever the
//! system has.

mod known_bad;
mod library;
mod posix;
mod support;
