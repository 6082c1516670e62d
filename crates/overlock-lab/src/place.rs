// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where in the program something happened: an address, its symbol, and who probably called it.
//!
//! A guest has no unwinder, so callers are found the way old kernels did it: every word on the
//! stack that points behind a call instruction is taken for a return address. A stale one may slip
//! in; none is missed. Names and lines come from the debug information of this process.

use std::fmt;

/// A place in the code, with its callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address of the instruction.
    pub address: u64,
    /// The function it is in, with file and line when known.
    pub symbol: Option<String>,
    /// Probable callers, innermost first.
    pub callers: Vec<String>,
}

/// How many callers are worth naming.
const CALLERS: usize = 8;

/// How many return addresses are looked up: a panic alone has half a dozen.
const CALLERS_READ: usize = 32;

impl Place {
    /// The place at `address`, with the callers whose return addresses lie in `stack`.
    ///
    /// `is_code` says whether an address can be executed.
    pub(crate) fn find(address: u64, stack: &[u64], is_code: impl Fn(u64) -> bool) -> Self {
        let is_return = |word: u64| {
            // A call takes at most seven bytes.
            is_code(word) && is_code(word.wrapping_sub(7)) && follows_call(word)
        };
        // Looking a return address up finds the call before it; the address itself needs one more.
        let here = if is_code(address) { symbols(address + 1) } else { Vec::new() };
        let there = stack.iter().filter(|&&word| is_return(word)).take(CALLERS_READ);
        let mut names = here.into_iter().chain(there.flat_map(|&word| symbols(word)));
        let symbol = if is_code(address) { names.next() } else { None };
        Self { address, symbol, callers: names.collect() }
    }

    /// A place of which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self { address: 0, symbol: None, callers: Vec::new() }
    }

    /// Whether the code was on its way through the panic machinery.
    pub(crate) fn is_panic(&self) -> bool {
        self.symbol.iter().chain(&self.callers).any(|name| is_panic_machinery(name))
    }

    /// The same place seen from the code that panicked.
    pub(crate) fn without_panic_machinery(mut self) -> Self {
        if let Some(last) = self.callers.iter().rposition(|name| is_panic_machinery(name)) {
            self.callers.drain(..=last);
            if !self.callers.is_empty() {
                self.symbol = Some(self.callers.remove(0));
            }
        }
        self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.symbol.as_deref().unwrap_or("unknown code");
        write!(f, "at {:#x} in {name}", self.address)?;
        for caller in self.callers.iter().take(CALLERS) {
            write!(f, "\n  from {caller}")?;
        }
        Ok(())
    }
}

/// What runs between the code that panics and the one that catches it.
fn is_panic_machinery(name: &str) -> bool {
    const PARTS: [&str; 6] = [
        "core::panicking::",
        "std::panicking::panic_",
        "std::panicking::begin_panic",
        "rust_panic",
        "rust_begin_unwind",
        "end_short_backtrace",
    ];
    PARTS.iter().any(|part| name.contains(part))
}

/// The functions whose code precedes `address`, with file and line when known: usually one, or
/// several, innermost first, where functions were inlined.
fn symbols(address: u64) -> Vec<String> {
    let mut found = Vec::new();
    backtrace::resolve(address as *mut _, |symbol| {
        let Some(name) = symbol.name() else { return };
        let line = match (symbol.filename(), symbol.lineno()) {
            (Some(file), Some(line)) => format!(" ({}:{line})", file.display()),
            _ => String::new(),
        };
        found.push(format!("{name:#}{line}"));
    });
    found
}

/// Whether the bytes before `address` form a call: `e8` with a 32-bit distance, or `ff /2` with a
/// register or memory operand of 2 to 7 bytes.
fn follows_call(address: u64) -> bool {
    // SAFETY: the caller has made sure that the seven bytes before `address` are mapped code.
    let before: [u8; 7] = unsafe { *((address - 7) as *const [u8; 7]) };
    before[2] == 0xe8 || (0..=5).any(|at| before[at] == 0xff && before[at + 1] & 0x38 == 0x10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_function_at_an_address() {
        let here = names_the_function_at_an_address as *const () as u64;
        let place = Place::find(here, &[], |_| true);
        assert!(place.symbol.unwrap().contains("names_the_function_at_an_address"));
    }

    #[test]
    fn sees_through_the_panic_machinery() {
        let callers = ["core::panicking::panic_fmt", "core::panicking::panic", "app::f", "app::g"];
        let place = Place {
            address: 16,
            symbol: Some("std::panicking::panic_count::increase".into()),
            callers: callers.map(String::from).to_vec(),
        };
        assert!(place.is_panic());
        let seen = place.without_panic_machinery();
        assert_eq!(seen.symbol.as_deref(), Some("app::f"));
        assert_eq!(seen.callers, ["app::g"]);
        assert!(!seen.is_panic());
    }
}
