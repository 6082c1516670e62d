//! Is wrong input answered by one clear sentence and exit code 2, by every verb? Nothing may be
//! printed as a result, and no result file be touched.

use crate::support::said;

/// What is typed after `overlock`, where quotes hold words together, and a part of the answer.
fn typed() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("../tables/wrong.txt").lines();
    lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" => "))
}

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
    for (line, sentence) in typed().filter(|(line, _)| is_here(line)) {
        let said = said(&words(line));
        // The sentence may continue on the next line.
        let told = said.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_clear = told.contains(sentence.trim()) && !told.contains("panicked");
        // A program that does not start has the code that shells give it.
        let code = if line == "trace -- no-such-program" { 125 } else { 2 };
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
    let is_asked = |verb: &&str| typed().any(|(line, _)| line.starts_with(*verb));
    assert!(typed().count() >= 60 && verbs.iter().all(is_asked));
}
