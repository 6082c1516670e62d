//! `compare`: one load under the kernel's own class and under each policy, with and without the
//! page, in rounds whose order is shuffled; a table of medians with their ranges.

use super::abi::{POLICIES, number};
use super::loaded::Loaded;
use super::threads::{STOP, Source, start_in, stop_at_signals};
use super::{Checked, Options, look};
use crate::words::Words;
use anyhow::{Context, Result, bail, ensure};
use overlock_results::stats::jain;
use overlock_results::units::{count, time};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const USAGE: &str = "overlock host compare [--rounds N] [--copies N] [--vcpus N] [--policies A,B] \
    [--seed N] [--check] [--json] -- COMMAND [WORD...]\n\
    COMMAND prints JSON lines with `ops`, `ns` and `wait_ns`, as `overlock-host load` and the kernel\n\
    image do. {page} is where the page is; without a page, that word is left out, and if it is {page}\n\
    alone, the word before it too.";

/// Where the page of these runs is.
const PAGE: &str = "/sys/fs/bpf/overlock-compare";

/// What is compared: `None` is the kernel's own class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variant {
    policy: Option<u32>,
    page: bool,
}

impl Variant {
    fn name(self) -> String {
        let policy = self.policy.map_or("kernel's own class", |n| POLICIES[n as usize]);
        let page = if self.page { " + page" } else { "" };
        format!("{policy}{page}")
    }
}

/// What one run measured.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    per_s: f64,
    p999_ns: f64,
    jain: f64,
}

#[derive(Debug)]
struct Plan {
    rounds: u32,
    copies: usize,
    vcpus: u32,
    policies: Vec<u32>,
    seed: u64,
    check: bool,
    json: bool,
    command: Vec<String>,
}

impl Plan {
    fn parse(words: &[String]) -> Result<Option<Self>> {
        let policies = (0..POLICIES.len() as u32).collect();
        let (rounds, copies, vcpus, seed) = (5, 1, 4, 1);
        let (check, json, command) = (false, false, Vec::new());
        let mut plan = Self { rounds, copies, vcpus, policies, seed, check, json, command };
        let mut words = Words::new(words, USAGE);
        while let Some(word) = words.next() {
            match word {
                "--rounds" => plan.rounds = words.value(word)?,
                "--copies" => plan.copies = words.value(word)?,
                "--vcpus" => plan.vcpus = words.value(word)?,
                "--seed" => plan.seed = words.value(word)?,
                "--policies" => {
                    let list: String = words.value(word)?;
                    plan.policies = list.split(',').map(number).collect::<Result<_>>()?;
                }
                "--check" => plan.check = true,
                "--json" => plan.json = true,
                "--help" | "-h" => return Ok(None),
                "--" => {
                    plan.command = std::iter::from_fn(|| words.next()).map(Into::into).collect();
                }
                _ => return words.unknown(word),
            }
        }
        ensure!(!plan.command.is_empty(), "compare wants a command after --\n{USAGE}");
        ensure!(plan.rounds > 0 && plan.copies > 0, "compare wants a round and a copy at least");
        Ok(Some(plan))
    }

    fn variants(&self) -> Vec<Variant> {
        let own = Variant { policy: None, page: false };
        let takes_page = self.command.iter().any(|word| word.contains("{page}"));
        let pages: &[bool] = if takes_page { &[false, true] } else { &[false] };
        let with = self.policies.iter().flat_map(|&policy| {
            pages.iter().map(move |&page| Variant { policy: Some(policy), page })
        });
        std::iter::once(own).chain(with).collect()
    }

    /// The words of the command for a run with or without the page.
    fn words(&self, page: bool) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for word in &self.command {
            if page || !word.contains("{page}") {
                words.push(word.replace("{page}", PAGE));
            } else if word == "{page}" {
                words.pop();
            }
        }
        words
    }

    fn start(&self, variant: Variant) -> Result<Vec<Child>> {
        let words = self.words(variant.page);
        let [program, rest @ ..] = &words[..] else { bail!("compare wants a command after --") };
        let start = |_| {
            let mut command = Command::new(program);
            command.args(rest).stdin(Stdio::null()).stdout(Stdio::piped());
            start_in(&mut command, variant.policy.is_some());
            command.spawn().with_context(|| format!("{program} did not start"))
        };
        (0..self.copies).map(start).collect()
    }

    fn run(&self, variant: Variant) -> Result<(Measured, Option<Checked>)> {
        let Some(policy) = variant.policy else {
            return Ok((measured(self.start(variant)?)?, None));
        };
        let options = Options {
            policy,
            source: Source::Processes(Vec::new()),
            seconds: None,
            page: variant.page.then(|| PathBuf::from(PAGE)),
            check: self.check,
            json: false,
            slice_us: super::SLICE_US,
            grace_us: super::GRACE_US,
            stalls: false,
            threads: self.vcpus,
        };
        let mut loaded = Loaded::new(&options)?;
        loaded.attach()?;
        let mut children = self.start(variant)?;
        while children.iter_mut().any(|child| matches!(child.try_wait(), Ok(None))) {
            loaded.poll(Duration::from_millis(20))?;
            if let Some(why) = loaded.exited()? {
                bail!("the kernel threw the scheduler out: {why}");
            }
            if STOP.load(Relaxed) {
                break;
            }
        }
        loaded.detach();
        let (tally, counts) = loaded.counted()?;
        let checked = self.check.then(|| loaded.check(&options, &tally, counts));
        Ok((measured(children)?, checked))
    }
}

/// What the programs print in the end, taken together.
fn measured(children: Vec<Child>) -> Result<Measured> {
    let (mut per_s, mut p999_ns, mut all) = (0.0, 0.0_f64, Vec::new());
    for child in children {
        let done = child.wait_with_output()?;
        ensure!(!STOP.load(Relaxed), "interrupted");
        let text = String::from_utf8_lossy(&done.stdout);
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let rows: Vec<Value> = lines.filter(|line| line["ops"].is_array()).collect();
        ensure!(!rows.is_empty(), "the command printed no line with `ops`: {}", text.trim_end());
        for row in &rows {
            let list = row["ops"].as_array().into_iter().flatten().filter_map(Value::as_u64);
            let ops: Vec<u64> = list.collect();
            let seconds = row["ns"].as_f64().unwrap_or(f64::NAN) / 1e9;
            per_s += ops.iter().sum::<u64>() as f64 / seconds / rows.len() as f64;
            p999_ns = p999_ns.max(row["wait_ns"]["p999"].as_f64().unwrap_or(f64::NAN));
            all.extend(ops);
        }
    }
    Ok(Measured { per_s, p999_ns, jain: jain(&all) })
}

/// Does what the words after `compare` say.
pub(crate) fn main(words: &[String]) -> Result<ExitCode> {
    let Some(plan) = Plan::parse(words)? else {
        crate::say(&format!("{USAGE}\n"))?;
        return Ok(ExitCode::SUCCESS);
    };
    look(super::threads::is_root())?;
    stop_at_signals();
    let variants = plan.variants();
    let mut results: Vec<Vec<Measured>> = vec![Vec::new(); variants.len()];
    let (mut seed, mut events, mut is_fine) = (plan.seed.max(1), 0, true);
    for round in 0..plan.rounds {
        for place in shuffled(variants.len(), &mut seed) {
            let variant = variants[place];
            let name = variant.name();
            crate::note(&format!("round {} of {}: {name}", round + 1, plan.rounds));
            let (measured, checked) = plan.run(variant).with_context(|| name.clone())?;
            results[place].push(measured);
            match checked {
                Some(Ok(count)) => events += count,
                Some(Err(why)) => {
                    crate::note(&format!("{name}: oracle: {why}"));
                    is_fine = false;
                }
                None => {}
            }
        }
    }
    crate::say(&if plan.json { as_json(&variants, &results) } else { table(&variants, &results) })?;
    if plan.check && is_fine {
        crate::say(&format!("The oracle gave the same answers and counts: {events} events.\n"))?;
    }
    Ok(ExitCode::from(u8::from(!is_fine)))
}

fn shuffled(count: usize, seed: &mut u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        order.swap(last, (*seed % (last as u64 + 1)) as usize);
    }
    order
}

/// The median, the lowest and the highest.
fn range(of: &[Measured], get: fn(&Measured) -> f64) -> [f64; 3] {
    let mut all: Vec<f64> = of.iter().map(get).collect();
    all.sort_by(f64::total_cmp);
    let middle = (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0;
    [middle, all[0], all[all.len() - 1]]
}

fn table(variants: &[Variant], results: &[Vec<Measured>]) -> String {
    let mut said = format!(
        "{:<26} {:<30} {:<32} {:<20}\n",
        "", "acquisitions/s", "p99.9 of waits", "Jain's index"
    );
    let form = |[middle, low, high]: [f64; 3], show: fn(f64) -> String| {
        format!("{} ({}..{})", show(middle), show(low), show(high))
    };
    for (variant, of) in variants.iter().zip(results) {
        said += &format!(
            "{:<26} {:<30} {:<32} {:<20}\n",
            variant.name(),
            form(range(of, |of| of.per_s), count),
            form(range(of, |of| of.p999_ns), time),
            form(range(of, |of| of.jain), |of| format!("{of:.3}")),
        );
    }
    said + &verdict(variants, results)
}

/// Which variants are faster than the kernel's own class in every round.
fn verdict(variants: &[Variant], results: &[Vec<Measured>]) -> String {
    let own = &results[0];
    let wins = |of: &&(&Variant, &Vec<Measured>)| {
        of.1.iter().zip(own).all(|(with, without)| with.per_s > without.per_s)
    };
    let pairs: Vec<_> = variants.iter().zip(results).skip(1).collect();
    let names: Vec<String> = pairs.iter().filter(wins).map(|(variant, _)| variant.name()).collect();
    let rounds = own.len();
    if names.is_empty() {
        format!("No policy beat the kernel's own class in all {rounds} rounds.\n")
    } else {
        format!(
            "Faster than the kernel's own class in all {rounds} rounds: {}.\n",
            names.join(", ")
        )
    }
}

fn as_json(variants: &[Variant], results: &[Vec<Measured>]) -> String {
    let lines = variants.iter().zip(results).map(|(variant, of)| {
        let list = |get: fn(&Measured) -> f64| of.iter().map(get).collect::<Vec<f64>>();
        let row = json!({
            "kind": "host-compare", "variant": variant.name(), "page": variant.page,
            "ops_per_s": list(|of| of.per_s), "p999_ns": list(|of| of.p999_ns),
            "jain": list(|of| of.jain),
        });
        format!("{row}\n")
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &str) -> Plan {
        let words: Vec<String> = words.split(' ').map(Into::into).collect();
        Plan::parse(&words).unwrap().unwrap()
    }

    #[test]
    fn without_a_page_its_words_are_left_out() {
        let with = plan("--policies none,pv-hint -- load --page {page} --ms 5");
        assert_eq!(with.words(false), ["load", "--ms", "5"]);
        assert_eq!(with.words(true), ["load", "--page", PAGE, "--ms", "5"]);
        assert_eq!(with.variants().len(), 5);
        let without = plan("--policies none,pv-hint --rounds 2 -- load --ms 5");
        assert_eq!(without.words(false), ["load", "--ms", "5"]);
        assert_eq!(without.variants().len(), 3);
        let joined = plan("-- vmm --page={page} image");
        assert_eq!(joined.words(false), ["vmm", "image"]);
        assert_eq!(joined.words(true)[1], format!("--page={PAGE}"));
    }

    #[test]
    fn a_policy_wins_only_if_it_wins_every_round() {
        let of = |list: &[f64]| -> Vec<Measured> {
            list.iter().map(|&per_s| Measured { per_s, ..Measured::default() }).collect()
        };
        let variants = plan("--policies none,yield -- load").variants();
        let said = verdict(&variants, &[of(&[5.0, 6.0]), of(&[6.0, 7.0]), of(&[9.0, 5.9])]);
        assert_eq!(said, "Faster than the kernel's own class in all 2 rounds: none.\n");
        let said = verdict(&variants, &[of(&[5.0]), of(&[5.0]), of(&[4.0])]);
        assert_eq!(said, "No policy beat the kernel's own class in all 1 rounds.\n");
        assert_eq!(range(&of(&[3.0, 1.0, 8.0, 4.0]), |of| of.per_s), [3.5, 1.0, 8.0]);
    }

    #[test]
    fn every_order_has_all() {
        let mut seed = 7;
        let mut order = shuffled(9, &mut seed);
        assert_ne!(order, (0..9).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..9).collect::<Vec<_>>());
    }
}
