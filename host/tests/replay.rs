//! `replay` on recordings that were made with Debian's Linux 7.2 in QEMU, and on what is none.

use serde_json::Value;
use std::process::{Command, Output};

fn host(words: &[&str]) -> Output {
    let mut host = Command::new(env!("CARGO_BIN_EXE_overlock-host"));
    host.current_dir(env!("CARGO_MANIFEST_DIR")).args(words).output().unwrap()
}

fn lines(words: &[&str]) -> Vec<Value> {
    let done = host(words);
    assert!(done.status.success(), "{done:?}");
    let said = String::from_utf8(done.stdout).unwrap();
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn policy<'a>(lines: &'a [Value], group: &str, policy: &str) -> &'a Value {
    let of = |line: &&Value| line["group"] == group && line["policy"] == policy;
    lines.iter().find(of).unwrap()
}

/// A host of two CPUs: thread 12 loses its processor while it holds the lock, thread 13 spins
/// beside it in vain, thread 11 hands its processor to a stranger, and 12 is back 2.1 ms later.
const HELD: &str = "\
 w-1 [000] d..2. 1.000000: sched_switch: prev_comm=s prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=w next_pid=11 next_prio=120
 w-1 [001] d..2. 1.000000: sched_switch: prev_comm=s prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=w next_pid=12 next_prio=120
 w-12 [001] ..... 1.001000: tracing_mark_write: overlock: holds 0x10
 w-12 [001] d..2. 1.002000: sched_switch: prev_comm=w prev_pid=12 prev_prio=120 prev_state=R ==> next_comm=w next_pid=13 next_prio=120
 w-13 [001] ..... 1.002100: tracing_mark_write: overlock: waits 0x10
 w-13 [001] ..... 1.002200: sys_sched_yield()
 w-13 [001] ..... 1.002201: sys_sched_yield -> 0x0
 w-11 [000] ..... 1.002300: tracing_mark_write: overlock: waits 0x10
 w-11 [000] ..... 1.002400: sys_sched_yield()
 w-11 [000] d..2. 1.002500: sched_switch: prev_comm=w prev_pid=11 prev_prio=120 prev_state=R ==> next_comm=x next_pid=99 next_prio=120
 x-99 [000] d..2. 1.004500: sched_switch: prev_comm=x prev_pid=99 prev_prio=120 prev_state=S ==> next_comm=w next_pid=12 next_prio=120
 w-13 [001] ..... 1.004600: sys_sched_yield()
";

/// A guest of three vCPUs on one CPU: 22 was preempted in user mode, 23 in the kernel, and 21
/// spins: in the kernel, there after an IPI to 22, twice in user mode, and twice in the kernel,
/// when the IPI is old.
const MODES: &str = "\
 s-1 [000] d..2. 1.000000: sched_switch: prev_comm=s prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=v next_pid=22 next_prio=120
 v-22 [000] d..1. 1.000010: kvm_entry: vcpu 1, rip 0x401000
 v-22 [000] d..1. 1.000020: kvm_exit: vcpu 1 reason interrupt rip 0x401000 info1 0x0
 v-22 [000] d..2. 1.000030: sched_switch: prev_comm=v prev_pid=22 prev_prio=120 prev_state=R+ ==> next_comm=v next_pid=23 next_prio=120
 v-23 [000] d..1. 1.000040: kvm_entry: vcpu 2, rip 0xffffffff81000000
 v-23 [000] d..1. 1.000050: kvm_exit: vcpu 2 reason interrupt rip 0xffffffff81000000 info1 0x0
 v-23 [000] d..2. 1.000060: sched_switch: prev_comm=v prev_pid=23 prev_prio=120 prev_state=R+ ==> next_comm=v next_pid=21 next_prio=120
 v-21 [000] d..1. 1.000070: kvm_entry: vcpu 0, rip 0xffffffff81000010
 v-21 [000] d..1. 1.000080: kvm_exit: vcpu 0 reason pause rip 0xffffffff81000010 info1 0x0
 v-21 [000] ...1. 1.000090: kvm_apic_ipi: dst 1 vec 253 (Fixed|physical|assert|edge|dst)
 v-21 [000] d..1. 1.000100: kvm_exit: vcpu 0 reason pause rip 0xffffffff81000010 info1 0x0
 v-21 [000] d..1. 1.000110: kvm_exit: vcpu 0 reason pause rip 0x402000 info1 0x0
 v-21 [000] d..1. 1.060000: kvm_exit: vcpu 0 reason pause rip 0x402000 info1 0x0
 v-21 [000] d..1. 1.060010: kvm_exit: vcpu 0 reason pause rip 0xffffffff81000010 info1 0x0
 v-21 [000] d..1. 1.060020: kvm_exit: vcpu 0 reason pause rip 0xffffffff81000010 info1 0x0
";

fn written(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn a_holder_off_its_processor_is_what_policies_name_and_its_absence_the_cost() {
    let file = written(HELD);
    let said = lines(&["replay", "--json", "--each", file.path().to_str().unwrap()]);
    let kernel = &said[0]["kernel"];
    assert_eq!(said[0]["threads"], serde_json::json!([11, 12, 13]));
    let did =
        ["member", "stranger", "stayed", "unknown"].map(|what| kernel[what].as_u64().unwrap());
    // What the kernel did with the last yield is not in the recording.
    assert_eq!(did, [0, 1, 1, 1]);
    assert_eq!((&kernel["right"], &kernel["right_of"]), (&0.into(), &3.into()));
    let skip = policy(&said, "w", "skip-spinners");
    // At the last spin 12 runs, so only 11 is named, which left its processor in a spin.
    assert_eq!((&skip["right"], &skip["right_of"]), (&2.into(), &3.into()));
    let waited = &skip["waited"];
    assert_eq!(
        (&waited["count"], &waited["sum_ns"]),
        (&2.into(), &2_300_000.into()),
        "one absence"
    );
    let each = said.iter().filter(|line| line["kind"] == "spin").collect::<Vec<_>>();
    assert_eq!(each.len(), 3);
    assert_eq!(each[0]["kernel"], "stayed");
    assert_eq!(each[1]["kernel"], "stranger");
    assert_eq!(each[1]["policies"]["skip-spinners"]["named"], 12);
    assert_eq!(each[1]["policies"]["skip-spinners"]["waited_ns"], 2_100_000);
}

#[test]
fn linux_passes_over_user_mode_and_its_series_prefers_who_was_interrupted() {
    let file = written(MODES);
    let said = lines(&["replay", "--json", "--each", file.path().to_str().unwrap()]);
    let named = |policy: &str| {
        let spins = said.iter().filter(|line| line["kind"] == "spin");
        spins.map(|spin| spin["policies"][policy]["named"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(named("skip-spinners"), [22, 23, 22, 23, 22, 23]);
    assert_eq!(named("linux"), [23, 22, 23, 22, 23, 23]);
    assert_eq!(named("linux-ipi"), [23, 22, 22, 22, 23, 23]);
}

#[test]
fn a_policy_whose_signal_is_not_recorded_has_no_figures() {
    let low = MODES.replace("0xffffffff81", "0x81");
    let no_ipi = MODES.replace("kvm_apic_ipi", "kvm_other");
    for (text, unknown) in [
        (MODES, vec!["pv-hint"]),
        (&low, vec!["linux", "linux-ipi", "pv-hint"]),
        (&no_ipi, vec!["linux-ipi", "ipi-first", "pv-hint"]),
        (HELD, vec!["linux", "linux-ipi", "ipi-first"]),
    ] {
        let file = written(text);
        let file = file.path().to_str().unwrap();
        let said = lines(&["replay", "--json", file]);
        let of = said.iter().filter(|line| !line["not_known"].is_null());
        assert!(of.clone().all(|line| line["named"].is_null()), "{said:?}");
        assert!(of.map(|line| &line["policy"]).eq(&unknown), "{said:?}");
        let table = String::from_utf8(host(&["replay", file]).stdout).unwrap();
        assert_eq!(table.matches("not known: the recording has no ").count(), unknown.len());
    }
}

#[test]
fn the_tables_say_what_the_recordings_of_a_real_kernel_hold() {
    for (file, spin) in [("guests", "reason pause"), ("threads", "sys_sched_yield()")] {
        let file = format!("recordings/{file}.txt");
        let text = std::fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR")));
        let all = text.unwrap().lines().filter(|line| line.contains(spin)).count() as u64;
        let said = lines(&["replay", "--json", &file]);
        let number = |line: &Value, name: &str| line[name].as_u64().unwrap();
        let groups: Vec<_> = said.iter().filter(|line| line["kind"] == "replay-group").collect();
        assert_eq!(groups.iter().map(|of| number(of, "spins")).sum::<u64>(), all, "{file}");
        for of in &groups {
            assert_eq!(of["strange_lines"], 0, "{file}");
            let kernel = ["member", "stranger", "stayed", "unknown"];
            let ends: u64 = kernel.iter().map(|what| number(&of["kernel"], what)).sum();
            assert_eq!(ends, number(of, "spins"), "each spin has one end: {of}");
        }
        let known = |line: &&Value| line["kind"] == "replay" && line["not_known"].is_null();
        for line in said.iter().filter(known) {
            let of = groups.iter().find(|of| of["group"] == line["group"]).unwrap();
            let reasons = line["reasons"].as_object().unwrap().values();
            let reasons: u64 = reasons.filter_map(Value::as_u64).sum();
            assert_eq!(reasons, number(of, "spins"), "one reason a spin: {line}");
            let known = number(line, "same_as_kernel")
                + line["waited"]["count"].as_u64().unwrap_or_default();
            assert!(known <= number(line, "named"), "{line}");
        }
        let table = String::from_utf8(host(&["replay", &file]).stdout).unwrap();
        assert!(table.contains("2 CPUs") && table.contains("load-gate"), "{table}");
    }
    let said = lines(&["replay", "--json", "recordings/threads.txt"]);
    let right =
        |policy_name| policy(&said, "overlock-host", policy_name)["right"].as_u64().unwrap();
    assert!(right("pv-hint") > right("yield"), "who holds is in the recording");
}

#[test]
fn what_can_not_be_replayed_is_said_in_one_line() {
    let no_switch = written(" w-1 [000] 1.000000: sched_wakeup: comm=w pid=2 prio=120");
    let no_vcpu = written(HELD.lines().next().unwrap());
    let noise = written("hello\nworld\n");
    let binary = written("PERFILE2\0\0");
    let nothing = written("");
    let not_text = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(not_text.path(), [0xff, 0xfe, 0x00]).unwrap();
    let path = |file: &tempfile::NamedTempFile| file.path().to_str().unwrap().to_owned();
    let held = written(HELD);
    for (words, wanted) in [
        (vec!["/none".to_owned()], "can't read /none: No such file"),
        (vec![path(&no_switch)], "has no sched_switch"),
        (vec![path(&no_vcpu)], "neither vCPUs"),
        (vec![path(&noise)], "has no event in 2 lines"),
        (vec![path(&binary)], "is binary"),
        (vec![path(&nothing)], "is empty"),
        (vec![path(&not_text)], "is no text"),
        (vec!["--threads".into(), "11,77".into(), path(&held)], "the recording has no thread 77"),
        (vec!["--threads".into(), "11,11".into(), path(&held)], "names a thread twice"),
        (vec!["--threads".into(), "x".into(), path(&held)], "wants numbers"),
        (vec![], "replay wants a file"),
        (vec!["--what".into()], "--what is not understood"),
    ] {
        let words: Vec<&str> =
            ["replay"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let done = host(&words);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{words:?}: {said}");
        let first = said.lines().next().unwrap();
        assert!(
            first.starts_with("overlock-host: ") && first.contains(wanted),
            "{words:?}: {said}"
        );
    }
}

#[test]
fn wrong_words_are_named_with_the_right_ones() {
    for (words, wanted) in [
        (vec!["fly"], "there is no verb fly"),
        (vec!["run"], "run wants --policy"),
        (vec!["run", "--policy", "best"], "there is no policy best; the scheduler has none, yield"),
        (
            vec!["run", "--policy", "report"],
            "the policy report is in the library, but not in the scheduler",
        ),
        (
            vec!["run", "--policy", "none", "--pids", "1", "--grace-us", "60000"],
            "an extension has 0 to",
        ),
        (vec!["run", "--policy", "none"], "run wants --cgroup or --pids"),
        (vec!["run", "--policy", "none", "--pids", "x"], "--pids wants numbers"),
        (vec!["run", "--seconds", "soon"], "--seconds can't be soon"),
        (vec!["run", "--policy", "none", "--pids", "1", "--slice-us", "5"], "a slice has 100 to"),
        (vec!["host", "compare", "--rounds", "2"], "compare wants a command after --"),
        (vec!["compare", "--policies", "none,best", "--", "x"], "there is no policy best"),
        (vec!["load", "--threads", "64"], "a load has 1 to 63 threads"),
        (vec!["load", "--page", "/none"], "can't open the page /none"),
        (vec!["load", "--what"], "--what is not understood"),
    ] {
        let done = host(&words);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.lines().next().unwrap().contains(wanted), "{words:?}: {said}");
    }
}
