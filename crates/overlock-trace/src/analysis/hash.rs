//! Maps by numbers, of which each record asks several: the standard library's hash takes a third of
//! the reader's time. A program that makes its addresses collide slows down its own trace only.

pub(crate) use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
