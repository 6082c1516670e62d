//! The kernel's command line: words of the form `key=value`.
//!
//! | key | value | default |
//! |---|---|---|
//! | `on` | `bare`, `kvm`, `xen` | `bare` |
//! | `halt` | `call`: on a bare machine, CPUs halt by a call to a host that the kernel plays | |
//! | `smp` | how many CPUs there are to start | 1 |
//! | `do` | `micro`, `contract`, `conformance`, `nesting`; to test the command, `hang`, `fault`, `reset`; several with `:` | `micro` |
//! | `locks` | names of locks with `:` between | `hybrid` |
//! | `cpus` | numbers of CPUs to take part, with `:` between | `smp` |
//! | `ms` | how long a run lasts | 200 |
//! | `ops` | how many acquisitions end a run early; 0 is none | 0 |
//! | `runs` | how many rounds | 3 |
//! | `cs`, `ncs` | nanoseconds of a critical section and between two | 0 |
//! | `page` | the record of the first CPU on the page that the monitor shares with its host, plus one | |
//! | `seed` | of the order in which locks take turns | 1 |
//! | `tick`, `ticks` | microseconds between ticks in `nesting`, and how many are enough | 1000, 200 |
//! | `broken` | to test the command: a defect of the platform, `looks-early` or `kicks-nobody` | |
//! | `nopvspin` | `1` switches waiting off, as Linux's parameter of this name does | 0 |

#[derive(Clone, Copy, Debug)]
pub struct CommandLine<'a>(pub &'a str);

impl<'a> CommandLine<'a> {
    /// The value of `key`, if it is there.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.0
            .split_ascii_whitespace()
            .filter_map(|word| word.split_once('='))
            .find_map(|(name, value)| (name == key).then_some(value))
    }

    /// The number that `key` has, or `default`.
    pub fn number(&self, key: &str, default: u64) -> u64 {
        self.get(key).and_then(|value| value.parse().ok()).unwrap_or(default)
    }

    /// Whether locks wait where the world lets them.
    pub fn wants_waiting(&self) -> bool {
        self.number("nopvspin", 0) == 0
    }

    /// The parts of `key`'s value, or of `default`.
    pub fn list(
        &self,
        key: &str,
        default: &'a str,
    ) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.get(key).unwrap_or(default).split(':').filter(|part| !part.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_their_keys() {
        let plan = CommandLine("on=bare cpus=1:2:4 ms=50 broken");
        assert_eq!(plan.get("on"), Some("bare"));
        assert_eq!(plan.number("ms", 7), 50);
        assert_eq!(plan.number("runs", 7), 7);
        assert!(plan.list("cpus", "9").eq(["1", "2", "4"]));
        assert!(plan.list("locks", "hybrid").eq(["hybrid"]));
    }
}
