//! Tests of the library from outside: whole programs run with it, in C, C++ and as the system
//! provides them.

mod barrier;
mod built;
#[path = "../../src/cell.rs"]
mod cell;
mod differential;
mod interposed;
mod known_bad;
mod library;
mod numbers;
mod posix;
mod stamps;
mod suites;
mod support;
mod users;
