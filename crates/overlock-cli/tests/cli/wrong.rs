//! Is wrong input answered by one clear sentence and exit code 2, by every verb? Nothing may be
//! printed as a result, and no result file be touched.

use crate::support::said;

/// What is typed after `overlock`, where quotes hold words together, and a part of the answer.
const WRONG: &[(&str, &str)] = &[
    ("bnech", "a similar subcommand exists: 'bench'"),
    // Numbers, times and names.
    ("bench --threads 0", "'0' is no whole number from 1 to 4096"),
    ("bench --threads 5000", "'5000' is no whole number from 1 to 4096"),
    ("bench --runs 0", "'0' is no whole number from 1 to 1000"),
    ("bench --seconds 0", "outside 0.01 to 600 seconds"),
    ("bench --seconds -1", "-1 is outside 0.01 to 600 seconds"),
    ("bench --threads ''", "'' is no whole number from 1 to 4096"),
    ("bench --runs 99999999999", "'99999999999' is no whole number from 1 to 1000"),
    ("bench --seconds soon", "'soon' is not a number of seconds"),
    ("bench --cs 100", "'100' needs a unit"),
    ("bench --ncs 2h", "'2h' needs a unit"),
    ("bench --cs -1us", "'-1us' is outside 0 to 1s"),
    ("bench --locks foo", "there is no lock 'foo'; choose from hybrid"),
    ("bench --random 0", "'0' is no whole number from 1 to 1000"),
    ("bench --read-share 101", "'101' is no whole number from 0 to 100"),
    ("bench --beside 2000", "'2000' is no whole number from 0 to 1024"),
    ("bench --seed soon", "'soon' is no whole number from 0 to"),
    ("bench --lengths normal", "possible values: exp, uniform, fixed, bimodal"),
    ("bench --in atlantis", "there is no world 'atlantis'; choose from threads, kvm"),
    ("bench --in threads:2", "there is no world 'threads:2'"),
    ("bench --in sim --cpus 0", "'0' is no whole number from 1 to 4096"),
    ("bench --in sim --cpus 1025", "1025 CPUs asked for; choose 1 to 1024"),
    ("bench --in sim --pcpus 0", "'0' is no whole number from 1 to 512"),
    ("bench --in sim --locks nonsense", "no lock 'nonsense'; choose from test-and-set"),
    ("bench --in sim --locks native-ticket-off", "there is no lock 'native-ticket-off'"),
    ("bench --in sim --policies nonsense", "is called nonsense; choose from none, report"),
    ("bench --in sim --workload nonsense", "there are micro, ebizzy,"),
    ("bench --in sim:atlantis", "no host is called atlantis; there are dev-kvm"),
    ("bench --in sim:/nowhere/at-all.toml", "can't read /nowhere/at-all.toml"),
    ("bench --in sim:e5-2699v3 --pcpus 37 --cpus 40", "has 36 pCPUs, not 37"),
    ("bench --in sim --shard 4/3", "choose 1/N to N/N, as in 2/4"),
    ("bench --in sim --shard half", "choose 1/N to N/N, as in 2/4"),
    (
        "bench macro",
        "can't read macro: No such file or directory (os error 2); built in are quick, ",
    ),
    // What does not go together.
    ("bench --random 3 --cs 0", "cannot be used with"),
    ("bench --workload micro --read-share 5", "cannot be used with"),
    ("bench quick --cs 0", "an experiment says what is measured; leave out"),
    ("bench --policies oracle", "threads have no yield policy and no PM timer: --in kvm has"),
    ("bench --timeline 5ms", "--timeline is about vCPUs: use it with --in kvm or sim"),
    ("bench --in sim --timeline 1s", "a timeline of 1s is longer than half a run of 0.1 s"),
    (
        "bench --workload ping-pong --locks yield --threads 2",
        "yield has no condition variables, which ping-pong needs; hybrid, ",
    ),
    (
        "bench --in sim --read-share 50 --locks hybrid --cpus 2",
        "readers exist for threads only: bench --read-share 90",
    ),
    ("bench --in sim --workload ping-pong --locks hybrid --cpus 2", "exist for threads only"),
    (
        "bench --locks std --threads 2 --cs 0 --seconds 0.02 --runs 1 --check",
        "--check found nothing to judge; leave the lists out",
    ),
    // Files.
    ("bench --out /no/such/folder/file", "can't write /no/such/folder/file"),
    ("bench --out /dev/full", "can't write the result file: No space left"),
    // Programs.
    ("compare", "<PROGRAM>..."),
    ("compare --", "required arguments were not provided"),
    ("compare --no-such-flag -- true", "--no-such-flag"),
    ("compare --locks mutex -- true", "there is no lock 'mutex' for programs"),
    ("compare --locks libc -- true", "there is nothing to compare libc with"),
    ("compare --locks hybrid,libc,hybrid -- true", "--locks has hybrid twice"),
    ("compare --metric ( -- true", "--metric is not a regular expression"),
    ("compare --metric rate -- sh -c 'echo slow'", "matches nothing"),
    ("compare --metric 'rate: (.*)' -- sh -c 'echo rate: fast'", "'fast', which is not a number"),
    ("compare --higher-is-better -- true", "--metric"),
    ("compare --timeout 0 -- true", "outside 0.01"),
    ("compare --timeout 0.3 -- sleep 9", "hung: killed after 0.3 s"),
    ("compare --runs 0 -- true", "'0' is no whole number from 1 to 1000"),
    ("compare -- sh -c 'echo no memory >&2; exit 3'", "ended with code 3"),
    ("compare -- sh -c 'echo no memory >&2; exit 3'", "it said: no memory"),
    ("run", "required arguments were not provided"),
    ("run hybrid", "<PROGRAM>..."),
    ("run --lock ticket --", "required arguments were not provided"),
    ("run no-lock -- true", "choose from hybrid, ticket, queued, test-and-set, libc, none"),
    ("run no-lock true", "there is no program 'no-lock' in PATH"),
    ("run no-lock true", "choose from hybrid, ticket, queued, test-and-set, libc, none"),
    ("run -- no-such-program", "there is no program 'no-such-program' in PATH"),
    ("run -- /no/such/program", "can't run /no/such/program"),
    ("run -- /", "is a folder"),
    ("run hybrid --lock ticket -- true", "under one lock, but hybrid and ticket are named"),
    ("run libc --out /dev/full -- true", "under libc nothing counts"),
    ("run --out /no/such/folder/file -- echo started", "can't write /no/such/folder/file"),
    // Threads' waits.
    ("trace", "<PROGRAM>..."),
    ("trace --pid 99999999", "there is no process 99999999"),
    ("trace --for 20 -- true", "'20' needs a unit: ms, s, min or h"),
    ("trace --source magic -- true", "possible values: auto, tracepoints, preload, looks"),
    ("trace -- no-such-program", "there is no program 'no-such-program' in PATH"),
    ("trace --pid -5", "'-5' is no whole number from 1 to"),
    ("trace --for -1s -- true", "-1s is outside 1ms to 24h"),
    ("trace --for 9999h -- true", "9999h is outside 1ms to 24h"),
    ("trace --top 0 -- true", "'0' is no whole number from 1 to"),
    // Attacks.
    ("torture --for -1s", "-1s is outside 1ms to 24h"),
    ("torture --seed -1", "'-1' is no whole number from 0 to"),
    ("torture --lock no-such-lock", "no lock 'no-such-lock'; choose from test-and-set"),
    ("torture --for 20", "'20' needs a unit"),
    ("torture --cpus 9", "'9' is no whole number from 2 to 8"),
    ("torture --steps 1", "'1' is no whole number from 100 to 1"),
    ("torture --lock ticket --replay soon", "'soon' is no run"),
    ("torture --replay random:1:1000", "add --lock NAME"),
    ("torture --lock ticket --replay inject:spin:nobody:1", "there is no role 'nobody'"),
    // Pages and answers.
    ("report", "<FILE>"),
    ("report /", "/: can't read line 1: Is a directory"),
    ("bench /", "can't read /: Is a directory"),
    ("bench --out / --threads 1", "can't write /: Is a directory"),
    ("report --chart pie x", "possible values: overcommit, waits, fairness, timeline"),
    ("report --check a --title b", "cannot be used with"),
    ("report /no/such/file", "/no/such/file: can't open it: No such file"),
    ("doctor now", "unexpected argument 'now'"),
    ("doctor --calibrate /no/such/folder/x.toml", "can't write /no/such/folder/x.toml"),
    ("reference pv_wait_heads", "has no 'pv_wait_heads'"),
    ("completions elvish2", "a similar value exists: 'elvish'"),
];

/// Splits a line into words as a shell does, as far as the table needs it.
fn words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    words.collect()
}

#[test]
fn wrong_input_is_a_sentence_and_exit_code_2() {
    let mut wrong = String::new();
    let is_here = |line: &str| !line.starts_with("trace") || cfg!(target_arch = "x86_64");
    for (line, sentence) in WRONG.iter().filter(|(line, _)| is_here(line)) {
        let said = said(&words(line));
        // The sentence may continue on the next line.
        let told = said.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_clear = told.contains(sentence.trim()) && !told.contains("panicked");
        // A program that does not start has the code that shells give it.
        let code = if *line == "trace -- no-such-program" { 125 } else { 2 };
        // A measurement is not announced that will not come.
        let announced = ["Seed of the day", "warning: the load"];
        let is_early = line.starts_with("bench") && !line.contains("--check");
        let is_early =
            is_early && announced.iter().any(|part| (told.clone() + &said.stdout).contains(part));
        let has_run = said.stdout.contains("started");
        if said.code != Some(code) || !is_clear || is_early || has_run {
            wrong += &format!("overlock {line}: no '{sentence}' in {said:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let verbs = ["bench", "run", "compare", "trace", "torture", "report", "doctor", "reference"];
    let is_asked = |verb: &&str| WRONG.iter().any(|(line, _)| line.starts_with(*verb));
    assert!(WRONG.len() >= 60 && verbs.iter().all(is_asked));
}
