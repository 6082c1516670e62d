//! Where in the program something happened: an address, its symbol, and its probable callers.
//!
//! A guest has no unwinder, so callers are found as in old kernels: every word on the stack that
//! points behind a call instruction is taken for a return address. A stale one may slip in; none is
//! missed. Names and lines come from the debug information of this process.

use std::fmt;

/// A place in the code, with its callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub address: u64,
    /// The function it is in, with file and line when known.
    pub symbol: Option<String>,
    pub callers: Vec<String>,
}

/// How many callers are worth naming.
const CALLERS: usize = 12;

/// How many return addresses are looked up: a panic alone has half a dozen.
const CALLERS_READ: usize = 32;

/// Where every vCPU begins: [`begin`](crate::lab::guest::ports::begin), which calls the program.
const PROGRAM_BEGINS: &str = "overlock_vcpu::lab::guest::ports::begin";

impl Place {
    /// Finds the place at `address`, with the callers whose return addresses lie in `stack`.
    ///
    /// `is_code` returns whether an address can be executed.
    pub(crate) fn find(address: u64, stack: &[u64], is_code: impl Fn(u64) -> bool) -> Self {
        let is_return = |word: u64| {
            // A call takes at most seven bytes.
            is_code(word) && is_code(word.wrapping_sub(7)) && follows_call(word)
        };
        // Looking up a return address finds the call before it; `address` itself needs one more
        // byte.
        let here = if is_code(address) { symbols(address + 1) } else { Vec::new() };
        let there = stack.iter().filter(|&&word| is_return(word)).take(CALLERS_READ);
        let names = here.into_iter().chain(there.flat_map(|&word| symbols(word)));
        // The callers of the program are the same engine every time.
        let mut names = names.take_while(|name| !name.starts_with(PROGRAM_BEGINS));
        let symbol = if is_code(address) { names.next() } else { None };
        Self { address, symbol, callers: names.collect() }
    }

    /// Returns a place about which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self { address: 0, symbol: None, callers: Vec::new() }
    }

    /// Returns whether the code was on its way through the panic machinery.
    pub(crate) fn is_panic(&self) -> bool {
        self.symbol.iter().chain(&self.callers).any(|name| is_panic_machinery(name))
    }

    /// Returns the same place seen from the code that panicked.
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

/// Returns whether a function runs between the code that panics and the code that catches it.
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

/// Returns the functions whose code precedes `address`, with file and line when known: usually one,
/// or several, innermost first, where functions were inlined.
fn symbols(address: u64) -> Vec<String> {
    let mut found = Vec::new();
    backtrace::resolve(address as *mut _, |symbol| {
        let Some(name) = symbol.name() else { return };
        let line = match (symbol.filename(), symbol.lineno()) {
            (Some(file), Some(line)) => format!(" ({}:{line})", file.display()),
            _ => String::new(),
        };
        found.push(without_generics(&format!("{name:#}")) + &line);
    });
    found
}

/// Returns a function's name without its type arguments, which take three lines for a lock on a
/// guest. The type of a method's receiver stays: `<app::Ring as overlock_vcpu::lab::Program>::run`.
fn without_generics(name: &str) -> String {
    let (mut short, mut depth) = (String::with_capacity(name.len()), 0);
    let mut before = ' ';
    for (at, letter) in name.char_indices() {
        // After a name they are its type arguments; anywhere else they are the receiver of a
        // method.
        let types = before.is_alphanumeric() || matches!(before, '_' | '}' | ']' | '>');
        let turbofish = short.ends_with("::") && !name[at..].starts_with("<impl ");
        match letter {
            '<' if depth > 0 => depth += 1,
            '<' if types || turbofish => {
                short.truncate(short.strip_suffix("::").map_or(short.len(), str::len));
                depth = 1;
            }
            '>' if depth > 0 && before != '-' => depth -= 1,
            _ if depth == 0 => short.push(letter),
            _ => {}
        }
        before = letter;
    }
    short
}

/// Returns whether the bytes before `address` form a call: `e8` with a 32-bit distance, or `ff /2`
/// with a register or memory operand of 2 to 7 bytes.
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
    fn a_name_loses_its_type_arguments() {
        for (name, short) in [
            ("app::f", "app::f"),
            ("begin<Mix<Hybrid<GuestPlatform<true>, Locks>>>", "begin"),
            ("{closure#0}<Mix<L>>::inner<T>", "{closure#0}::inner"),
            ("app::f::<u8>", "app::f"),
            (
                "<app::Ring<T> as lab::Program<W>>::run::<fn(u8) -> u8>",
                "<app::Ring as lab::Program>::run",
            ),
            (
                "app::<impl lab::Program<W> for app::Ring>::run",
                "app::<impl lab::Program for app::Ring>::run",
            ),
        ] {
            assert_eq!(without_generics(name), short);
        }
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
