//! Where in the program something happened: an address, its symbol, and who probably called it.
//!
//! A guest has no unwinder, so callers are found the way old kernels did it: every word on the stack
//! that points behind a call instruction is taken for a return address. A stale one may slip in; none
//! is missed. Names and lines come from the debug information of this process.

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

/// How much of a stack is searched for return addresses, in words.
pub(crate) const STACK_WORDS: usize = 2048;

impl Place {
    /// The place at `address`, with the callers whose return addresses lie in `stack`.
    ///
    /// `is_code` says whether an address can be executed.
    pub(crate) fn find(address: u64, stack: &[u64], is_code: impl Fn(u64) -> bool) -> Self {
        let callers = stack
            .iter()
            .filter(|&&word| is_code(word.wrapping_sub(7)) && is_code(word) && follows_call(word))
            // The call is what matters, not the instruction behind it.
            .filter_map(|&word| symbol(word - 1))
            .take(CALLERS * 4)
            .collect();
        Self { address, symbol: is_code(address).then(|| symbol(address)).flatten(), callers }
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

fn is_panic_machinery(name: &str) -> bool {
    ["core::panicking", "std::panicking", "rust_begin_unwind", "end_short_backtrace"]
        .iter()
        .any(|part| name.contains(part))
}

/// The name of the function around `address`, with file and line when known.
fn symbol(address: u64) -> Option<String> {
    let mut found = None;
    backtrace::resolve(address as *mut _, |symbol| {
        let Some(name) = symbol.name() else { return };
        let line = match (symbol.filename(), symbol.lineno()) {
            (Some(file), Some(line)) => format!(" ({}:{line})", file.display()),
            _ => String::new(),
        };
        // Inlined functions come innermost first; the innermost is where it happened.
        found.get_or_insert_with(|| format!("{name:#}{line}"));
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
    fn names_this_function_and_its_caller() {
        let here = names_this_function_and_its_caller as *const () as u64;
        let place = Place::find(here, &[], |_| true);
        assert!(place.symbol.unwrap().contains("names_this_function_and_its_caller"));
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
