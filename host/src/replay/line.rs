//! One line of a recording as text: what `perf script`, `trace-cmd report` and tracefs print.
//!
//! All three give the thread, the CPU in brackets, the time with a colon, the event with a colon,
//! and the event's fields; they differ in spaces and in the columns between. `trace-cmd` prints
//! some events in a form of its own.

use overlock_vcpu::host::Nanos;

/// A line that says what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The thread that ran, and its process, where the recording says it.
    pub(crate) thread: u32,
    pub(crate) process: Option<u32>,
    pub(crate) cpu: u32,
    pub(crate) at: Nanos,
    pub(crate) event: Event<'a>,
}

/// What happened, as far as a replay uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    Switch {
        from: Thread<'a>,
        /// Whether it could have run on.
        ready: bool,
        to: Thread<'a>,
    },
    Wakeup(u32),
    /// The thread yields its processor.
    Yield,
    /// A vCPU leaves its guest because it pauses in a loop; at this address, where that is known.
    Pause(Option<u64>),
    /// A vCPU leaves its guest for another reason.
    Exit(Option<u64>),
    Entry {
        vcpu: Option<u32>,
    },
    /// The thread is back from its yield.
    Back,
    /// A vCPU kicks the vCPU that has this APIC's number, which sleeps for a lock.
    Kick(u32),
    /// A vCPU interrupts the vCPUs that have these APICs' numbers.
    Ipi(Vec<u32>),
    /// The thread's own word on a lock.
    Said(Lock<'a>),
    Other,
}

/// A thread in a change of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread<'a> {
    pub(crate) name: &'a str,
    pub(crate) id: u32,
}

/// What a thread wrote into the recording about a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock<'a> {
    Waits(&'a str),
    Holds(&'a str),
    Frees(&'a str),
}

/// Understands a line; `None` if it is not an event.
pub(crate) fn parse(line: &str) -> Option<Line<'_>> {
    let open = line.match_indices('[').find_map(|(at, _)| {
        let (cpu, rest) = line[at + 1..].split_once(']')?;
        Some((at, cpu.parse().ok()?, rest))
    });
    let (at, cpu, rest) = open?;
    let who = line[..at].trim_end();
    // `perf script` can print the process before the thread, and tracefs behind it.
    let (who, behind) = match who.rsplit_once('(') {
        Some((before, behind)) => (before.trim_end(), behind.trim_end_matches(')').trim()),
        None => (who, ""),
    };
    let word = who.rsplit([' ', '\t']).next()?;
    let (before, thread) = word.rsplit_once(['-', '/']).unwrap_or(("", word));
    let process = behind.parse().ok().or_else(|| before.parse().ok());
    let thread = thread.parse().ok()?;
    let mut rest = rest.trim_start();
    let at = loop {
        let (word, after) = rest.split_once(char::is_whitespace)?;
        rest = after.trim_start();
        if let Some(at) = word.strip_suffix(':').and_then(time) {
            break at;
        }
    };
    // `perf script` puts the period in front, if it is asked to.
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let (word, fields) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    // tracefs prints a system call in a form of its own.
    let event_of_call = match (word, fields.starts_with("->")) {
        ("sys_sched_yield()", _) => Some(Event::Yield),
        ("sys_sched_yield", true) => Some(Event::Back),
        _ => None,
    };
    if let Some(event) = event_of_call {
        return Some(Line { thread, process, cpu, at, event });
    }
    let name = word.strip_suffix(':')?;
    let name = name.rsplit(':').next()?;
    Some(Line { thread, process, cpu, at, event: event(name, fields.trim_start())? })
}

/// Seconds with a fraction of six or nine digits.
fn time(word: &str) -> Option<Nanos> {
    let (seconds, part) = word.split_once('.')?;
    let digits = u32::try_from(part.len()).ok().filter(|&digits| digits <= 9)?;
    let part = part.parse::<u64>().ok()? * 10_u64.pow(9 - digits);
    Some(Nanos(seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)?))
}

fn event<'a>(name: &str, fields: &'a str) -> Option<Event<'a>> {
    Some(match name {
        "sched_switch" => switch(fields)?,
        "sched_wakeup" | "sched_wakeup_new" => Event::Wakeup(match value(fields, "pid=") {
            Some(id) => id.parse().ok()?,
            // `name:12 [120] CPU:000`
            None => fields.split_once(" [")?.0.rsplit(':').next()?.parse().ok()?,
        }),
        "sched_yield" | "sys_enter_sched_yield" => Event::Yield,
        "sys_exit_sched_yield" => Event::Back,
        "kvm_exit" => {
            let pauses = reason(fields).to_ascii_lowercase().contains("pause");
            let to_event = if pauses { Event::Pause } else { Event::Exit };
            to_event(number(fields, "rip"))
        }
        "kvm_entry" => {
            let number = |word: &str| value(fields, word)?.trim_end_matches(',').parse().ok();
            Event::Entry { vcpu: number("vcpu ").or_else(|| number("vcpu_id=")) }
        }
        // HvCallNotifyLongSpinWait, by which a guest made for Hyper-V says that it spins.
        "kvm_hv_hypercall" if number(fields, "code") == Some(8) => Event::Pause(None),
        "kvm_hypercall" => hypercall(fields),
        "kvm_apic_ipi" if fields.contains("(Fixed|physical|") && fields.contains("|dst)") => {
            // Without 0x, but in hexadecimal digits.
            Event::Ipi(vec![u32::from_str_radix(value(fields, "dst ")?, 16).ok()?])
        }
        "tracing_mark_write" | "print" => said(fields).map_or(Event::Other, Event::Said),
        _ => Event::Other,
    })
}

/// KVM's hypercalls, by their numbers in its documentation.
fn hypercall(fields: &str) -> Event<'_> {
    let word = |name| number(fields, name);
    let small = |name| word(name).and_then(|value| u32::try_from(value).ok());
    match (word("nr"), small("a0"), small("a1")) {
        (Some(5), _, Some(apic)) => Event::Kick(apic),
        (Some(10), _, _) => {
            let bits = [word("a0"), word("a1")].map(Option::unwrap_or_default);
            let first = small("a2").unwrap_or_default();
            let is_set = |n: &u32| bits[*n as usize / 64] >> (n % 64) & 1 == 1;
            Event::Ipi((0..128).filter(is_set).filter_map(|n| first.checked_add(n)).collect())
        }
        (Some(11), Some(_), _) => Event::Yield,
        _ => Event::Other,
    }
}

fn said(fields: &str) -> Option<Lock<'_>> {
    let (_, words) = fields.split_once("overlock: ")?;
    let (verb, lock) = words.trim_end().split_once(' ')?;
    Some(match verb {
        "waits" => Lock::Waits(lock),
        "holds" => Lock::Holds(lock),
        "frees" => Lock::Frees(lock),
        _ => return None,
    })
}

fn switch(fields: &str) -> Option<Event<'_>> {
    if let Some((from, to)) = fields.split_once(" ==> ") {
        if let Some(from) = from.strip_prefix("prev_comm=") {
            let (name, from) = from.rsplit_once(" prev_pid=")?;
            let id = from.split(' ').next()?.parse().ok()?;
            let ready = value(from, "prev_state=")?.starts_with('R');
            let (next, to) = to.strip_prefix("next_comm=")?.rsplit_once(" next_pid=")?;
            let to = Thread { name: next, id: to.split(' ').next()?.parse().ok()? };
            return Some(Event::Switch { from: Thread { name, id }, ready, to });
        }
        // `trace-cmd`: `name:12 [120] R ==> other:13 [120]`
        let (from, rest) = brief(from)?;
        let ready = rest.trim_start().starts_with('R');
        return Some(Event::Switch { from, ready, to: brief(to)?.0 });
    }
    // Raw fields, without the arrow.
    let (from, rest) = fields.strip_prefix("prev_comm=")?.split_once(" prev_pid=")?;
    let id = rest.split(' ').next()?.parse().ok()?;
    let state = value(rest, "prev_state=")?;
    let (next, to) = rest.split_once("next_comm=")?.1.rsplit_once(" next_pid=")?;
    let to = Thread { name: next, id: to.split(' ').next()?.parse().ok()? };
    let ready = state.starts_with('R') || state == "0" || state == "0x0";
    Some(Event::Switch { from: Thread { name: from, id }, ready, to })
}

/// `name:12 [120]`, and what follows.
fn brief(words: &str) -> Option<(Thread<'_>, &str)> {
    let (who, rest) = words.split_once(" [")?;
    let (name, id) = who.rsplit_once(':')?;
    Some((Thread { name, id: id.parse().ok()? }, rest.split_once(']')?.1))
}

/// Why a vCPU left its guest: the word after `reason`.
fn reason(fields: &str) -> &str {
    let words = fields.split_once("reason").map_or(fields, |(_, after)| after);
    words.trim_start_matches([' ', '=']).split(' ').next().unwrap_or_default()
}

/// The word that follows `key`.
fn value<'a>(fields: &'a str, key: &str) -> Option<&'a str> {
    fields.split_once(key)?.1.split_ascii_whitespace().next()
}

/// The number that follows the word `key`, decimal or with 0x.
fn number(fields: &str, key: &str) -> Option<u64> {
    let mut words = fields.split([' ', '=', ',']).filter(|word| !word.is_empty());
    words.find(|word| *word == key)?;
    let word = words.next()?;
    word.strip_prefix("0x")
        .map_or_else(|| word.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(lines: &str) -> Vec<(u32, u32, u64, Event<'_>)> {
        let parsed = lines.lines().map(|line| parse(line).expect(line));
        parsed.map(|line| (line.thread, line.cpu, line.at.0, line.event)).collect()
    }

    #[test]
    fn three_programs_print_one_event_in_three_forms() {
        let lines = "\
            \x20  CPU 1/KVM-71      [001] d..2.  12.345678: sched_switch: prev_comm=CPU 1/KVM prev_pid=71 prev_prio=120 prev_state=R+ ==> next_comm=a b next_pid=9 next_prio=120\n\
            CPU 1/KVM    71 [001]    12.345678000:      sched:sched_switch: prev_comm=CPU 1/KVM prev_pid=71 prev_prio=120 prev_state=R+ ==> next_comm=a b next_pid=9 next_prio=120\n\
            CPU 1/KVM 70/71 [001] 12.345678:          1 sched:sched_switch: CPU 1/KVM:71 [120] R ==> a b:9 [120]\n\
            CPU 1/KVM-71 ( 70) [001] 12.345678: sched_switch: prev_comm=CPU 1/KVM prev_pid=71 prev_prio=120 prev_state=0x0 next_comm=a b next_pid=9 next_prio=120";
        let from = Thread { name: "CPU 1/KVM", id: 71 };
        let to = Thread { name: "a b", id: 9 };
        let switch = Event::Switch { from, ready: true, to };
        assert_eq!(events(lines), vec![(71, 1, 12_345_678_000, switch); 4]);
        let processes = lines.lines().map(|line| parse(line).and_then(|line| line.process));
        assert!(processes.eq([None, None, Some(70), Some(70)]));
    }

    #[test]
    fn events_of_guests_are_spins_kicks_and_interrupts() {
        let of = |words: &'static str| {
            let (name, fields) = words.split_once(": ").unwrap();
            event(name.rsplit(':').next().unwrap(), fields)
        };
        let pause = Some(Event::Pause(Some(1)));
        assert_eq!(of("kvm_exit: vcpu 0 reason pause rip 0x1 info1 0x0"), pause);
        assert_eq!(of("kvm:kvm_exit: reason PAUSE_INSTRUCTION rip 0x1"), pause);
        assert_eq!(of("kvm_exit: vcpu 0 reason hlt rip 0x2"), Some(Event::Exit(Some(2))));
        assert_eq!(of("kvm_hv_hypercall: code 0x8 fast var_cnt 0x0"), Some(Event::Pause(None)));
        assert_eq!(of("kvm_hypercall: nr 0x5 a0 0x0 a1 0x3 a2 0x0 a3 0x0"), Some(Event::Kick(3)));
        let ipi = "kvm_hypercall: nr 0xa a0 0x5 a1 0x1 a2 0x1 a3 0xfd";
        assert_eq!(of(ipi), Some(Event::Ipi(vec![1, 3, 65])));
        let ipi = "kvm_apic_ipi: dst 1a vec 253 (Fixed|physical|assert|edge|dst)";
        assert_eq!(of(ipi), Some(Event::Ipi(vec![26])));
        for start in ["dst 1 vec 0 (INIT|physical|assert|level|dst)", "dst 1 vec 0 (SIPI|physical|"]
        {
            assert_eq!(event("kvm_apic_ipi", start), Some(Event::Other), "it starts a vCPU");
        }
        assert_eq!(of("kvm_entry: vcpu 3, rip 0xfff0"), Some(Event::Entry { vcpu: Some(3) }));
        let said = of("tracing_mark_write: overlock: holds 0x10");
        assert_eq!(said, Some(Event::Said(Lock::Holds("0x10"))));
        assert_eq!(
            of("sched_wakeup: comm=x pid=12 prio=120 target_cpu=001"),
            Some(Event::Wakeup(12))
        );
        assert_eq!(of("sched_wakeup: x:12 [120] CPU:001"), Some(Event::Wakeup(12)));
        assert_eq!(of("sys_enter_sched_yield: "), Some(Event::Yield));
    }

    #[test]
    fn a_yield_has_three_forms() {
        for (call, back) in [
            ("sys_sched_yield()", "sys_sched_yield -> 0x0"),
            ("sys_enter_sched_yield:", "sys_exit_sched_yield: 0x0"),
            ("syscalls:sys_enter_sched_yield: ", "syscalls:sys_exit_sched_yield: 0x0"),
        ] {
            let events = [call, back].map(|of| {
                let line = format!("x-7 [000] 1.000000: {of}");
                parse(&line).map(|line| matches!(line.event, Event::Yield))
            });
            assert_eq!(events, [Some(true), Some(false)], "{call}");
        }
    }

    #[test]
    fn what_is_no_event_is_none() {
        for line in ["", "# tracer: nop", "cpus=2", "a-1 [000] x", "[0] 1.0:", "a-1 [000] 1.0: b"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
