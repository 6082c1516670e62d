//! `cargo xtask ablate`: what each mechanism of the queue locks brings.
//!
//! A mechanism is named where the lock asks for it (`raw/queue/rent.rs`). For each, and for one
//! that does not exist, this builds a program with locks that lack it. All programs then run the
//! same random points of a world in turns of shuffled order, so that what else the machine does
//! hits them alike, and each is compared with the whole lock inside each round.
//!
//! A mechanism pays its rent if its absence costs [`MEAN`] of the throughput, [`POINT`] at a tenth
//! of the points, or [`TAIL`] of the p99.9 or the longest stall, and in that more than the
//! mechanism that does not exist; or if it stands for a bound or for progress, which no throughput
//! shows ([`MECHANISMS`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::root;

const MEAN: f64 = 0.015;
const POINT: f64 = 0.05;
const TAIL: f64 = 0.1;

/// The whole lock.
const ALL: &str = "";
/// A mechanism that no lock has: what it costs to leave it out is the noise.
const NONE: &str = "none";

/// A mechanism of a lock: its lines of code, and what it stands for beyond these figures.
struct Mechanism {
    name: &'static str,
    lines: usize,
    lock: &'static str,
    stands_for: &'static str,
}

const fn mechanism(name: &'static str, lines: usize) -> Mechanism {
    Mechanism { name, lines, lock: "hybrid", stands_for: "" }
}

const MECHANISMS: [Mechanism; 9] = [
    mechanism("the newcomer's spin", 14),
    Mechanism {
        stands_for: "programs (LevelDB's fillrandom and sysbench threads: below)",
        ..mechanism("the short spin", 5)
    },
    mechanism("rare looks", 2),
    Mechanism {
        stands_for: "programs whose holders yield (sysbench threads: 0.45 without)",
        ..mechanism("the head's yields", 5)
    },
    Mechanism {
        stands_for: "the bound in time: without it only 4,095 steals end a head's wait",
        ..mechanism("the tenure", 11)
    },
    mechanism("the steal that clears HALTED", 21),
    Mechanism {
        stands_for: "programs (streamcluster with 16 threads: 0.76 without)",
        ..mechanism("promotion asleep", 19)
    },
    Mechanism { lock: "queued", ..mechanism("promotion asleep", 19) },
    Mechanism {
        stands_for: "progress: the kicker may have lost its processor",
        ..mechanism("the kick that is taken over", 5)
    },
];

/// What one run says.
#[derive(Clone, Copy, Debug)]
struct Run {
    ops_per_s: f64,
    p999_ns: f64,
    stall_ns: f64,
    jain: f64,
}

/// The lock without one mechanism, over the whole lock.
#[derive(Debug, PartialEq)]
struct Ratios {
    mean: f64,
    worst: f64,
    /// The share of points that lose [`POINT`].
    losers: f64,
    p999: f64,
    stall: f64,
    jain: f64,
}

/// How much is measured.
#[derive(Debug, PartialEq)]
pub(crate) struct Amount {
    world: String,
    points: u32,
    rounds: u32,
    seconds: String,
    seed: u64,
}

impl Amount {
    /// Reads `--in WORLD --points N --rounds N --seconds S --seed N`.
    fn parse(args: &[&str]) -> Result<Self> {
        let mut amount = Self {
            world: "threads".into(),
            points: 24,
            rounds: 3,
            seconds: "0.2".into(),
            seed: 1106,
        };
        for pair in args.chunks(2) {
            let &[option, value] = pair else { bail!("{} needs a value", pair[0]) };
            match option {
                "--in" => amount.world = value.into(),
                "--points" => amount.points = value.parse()?,
                "--rounds" => amount.rounds = value.parse()?,
                "--seconds" => amount.seconds = value.parse::<f64>()?.to_string(),
                "--seed" => amount.seed = value.parse()?,
                _ => bail!(
                    "ablate takes --in, --points, --rounds, --seconds and --seed, not {option}"
                ),
            }
        }
        ensure!(amount.points > 0 && amount.rounds > 0, "nothing to measure");
        Ok(amount)
    }
}

/// Measures, prints the table, and writes it into `docs/hybrid.md`.
pub(crate) fn ablate(args: &[&str]) -> Result<bool> {
    let (only, args) = match args {
        [only @ ("build" | "built"), args @ ..] => (*only, args),
        _ => ("", args),
    };
    let amount = Amount::parse(args)?;
    let folder = crate::target()?.join("ablate");
    fs::create_dir_all(&folder)?;
    let locks = [(ALL, "hybrid"), (ALL, "queued"), (NONE, "hybrid")];
    let subjects: Vec<(&str, &str)> =
        locks.into_iter().chain(MECHANISMS.iter().map(|one| (one.name, one.lock))).collect();
    let program = |without: &str| folder.join(if without == ALL { "all" } else { without });
    if only != "built" {
        for without in subjects.iter().map(|(without, _)| *without).collect::<BTreeSet<_>>() {
            build(without, &folder, &program(without))?;
        }
    }
    if only == "build" {
        return Ok(true);
    }
    let mut runs = Runs::new();
    for round in 0..amount.rounds {
        for point in 0..amount.points {
            eprint!("\rround {} of {}, point {}  ", round + 1, amount.rounds, point + 1);
            for at in shuffled(subjects.len(), amount.seed, round, point) {
                let (without, lock) = subjects[at];
                let run = run(&program(without), lock, &amount, point)?;
                runs.entry((without, lock, point)).or_default().push(run);
            }
        }
    }
    eprintln!();
    let table = table(&runs, &amount);
    println!("{table}");
    let page = root().join("docs/hybrid.md");
    let text = fs::read_to_string(&page)?;
    fs::write(page, placed(&text, &amount.world, &table)?)?;
    Ok(true)
}

/// Builds the program that measures a lock without this mechanism.
fn build(without: &str, folder: &Path, program: &Path) -> Result<()> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--locked", "--quiet", "-p", "overlock-worlds"]);
    cargo.args(["--example", "point", "--target-dir"]).arg(folder);
    cargo.env_remove("OVERLOCK_WITHOUT");
    if without != ALL {
        cargo.env("OVERLOCK_WITHOUT", without);
    }
    let status = cargo.current_dir(root()).status().context("cargo did not start")?;
    ensure!(status.success(), "the lock does not build without {without}");
    fs::copy(folder.join("release/examples/point"), program)?;
    Ok(())
}

fn run(program: &Path, lock: &str, amount: &Amount, point: u32) -> Result<Run> {
    let mut command = Command::new(program);
    let (seed, point) = (amount.seed.to_string(), point.to_string());
    command.args([&amount.world, lock, &seed, &point, &amount.seconds]);
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<f64> = said.split(' ').map_while(|word| word.parse().ok()).collect();
    match figures[..] {
        [ops_per_s, p999_ns, stall_ns, jain, ..] => Ok(Run { ops_per_s, p999_ns, stall_ns, jain }),
        _ => bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// The runs of each lock without a mechanism, at each point.
type Runs<'a> = BTreeMap<(&'a str, &'a str, u32), Vec<Run>>;

/// The ratios of the runs without a mechanism to those of the whole lock: at each point the median
/// of the rounds, and of the points the geometric mean.
fn ratios(runs: &Runs<'_>, name: &str, lock: &str) -> Ratios {
    let points = || runs.iter().filter(|((of, at, _), _)| (*of, *at) == (name, lock));
    let each = |figure: &dyn Fn(&Run) -> f64| -> Vec<f64> {
        let ratio = |((_, lock, point), without): (&(&str, &str, u32), &Vec<Run>)| {
            let whole = &runs[&(ALL, *lock, *point)];
            let of = |(without, whole): (&Run, &Run)| {
                figure(without).max(f64::MIN_POSITIVE) / figure(whole).max(f64::MIN_POSITIVE)
            };
            median(without.iter().zip(whole).map(of).collect())
        };
        points().map(ratio).collect()
    };
    let mean =
        |of: &[f64]| (of.iter().map(|ratio| ratio.ln()).sum::<f64>() / of.len() as f64).exp();
    let throughput = each(&|run| run.ops_per_s);
    let losers = throughput.iter().filter(|ratio| **ratio <= 1.0 - POINT).count();
    Ratios {
        mean: mean(&throughput),
        worst: throughput.iter().copied().fold(f64::INFINITY, f64::min),
        losers: losers as f64 / throughput.len() as f64,
        // A wait that no clock can see counts as a microsecond.
        p999: mean(&each(&|run| run.p999_ns.max(1_000.0))),
        stall: mean(&each(&|run| run.stall_ns.max(1_000.0))),
        jain: mean(&each(&|run| run.jain)),
    }
}

/// The order in which programs take their turns: another in each round and at each point, the same
/// with each seed.
fn shuffled(programs: usize, seed: u64, round: u32, point: u32) -> Vec<usize> {
    let key = |program: &usize| {
        let mut hasher = DefaultHasher::new();
        (seed, round, point, program).hash(&mut hasher);
        hasher.finish()
    };
    let mut order: Vec<usize> = (0..programs).collect();
    order.sort_by_cached_key(key);
    order
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    let middle = of.len() / 2;
    if of.len() % 2 == 1 { of[middle] } else { f64::midpoint(of[middle - 1], of[middle]) }
}

/// Why a mechanism pays its rent, if it does. The noise counts in both directions.
fn rent(without: &Ratios, noise: &Ratios) -> Vec<&'static str> {
    let most = |ratio: f64| ratio.max(1.0 / ratio);
    let pays = [
        ("mean", 1.0 - without.mean >= MEAN && most(without.mean) > most(noise.mean)),
        ("points", without.losers >= 0.1 && without.losers > noise.losers),
        ("p99.9", without.p999 >= 1.0 + TAIL && without.p999 > most(noise.p999)),
        ("stalls", without.stall >= 1.0 + TAIL && without.stall > most(noise.stall)),
        ("Jain", without.jain <= 1.0 - POINT && most(without.jain) > most(noise.jain)),
    ];
    pays.into_iter().filter(|(_, pays)| *pays).map(|(name, _)| name).collect()
}

fn table(runs: &Runs<'_>, amount: &Amount) -> String {
    let noise = ratios(runs, NONE, "hybrid");
    let mut text = format!(
        "`cargo xtask ablate --in {} --points {} --rounds {} --seconds {} --seed {}`:\n\n\
         | left out | lines | throughput | worst point | points that lose 5 % | p99.9 | longest stall | \
         Jain | pays by |\n|---|---|---|---|---|---|---|---|---|\n",
        amount.world, amount.points, amount.rounds, amount.seconds, amount.seed
    );
    let none = mechanism(NONE, 0);
    for Mechanism { name, lines, lock, stands_for } in std::iter::once(&none).chain(&MECHANISMS) {
        let Ratios { mean, worst, losers, p999, stall, jain } = ratios(runs, name, lock);
        let mut pays = rent(&ratios(runs, name, lock), &noise).join(", ");
        if !stands_for.is_empty() {
            pays += if pays.is_empty() { "" } else { "; " };
            pays += stands_for;
        }
        let pays = if pays.is_empty() { "nothing" } else { &pays };
        let losers = losers * 100.0;
        let of = if *lock == "hybrid" { String::new() } else { format!(" ({lock})") };
        let _ = writeln!(
            text,
            "| {name}{of} | {lines} | {mean:.3} | {worst:.2} | {losers:.0} % | {p999:.2} | {stall:.2} | \
             {jain:.3} | {pays} |"
        );
    }
    text
}

/// Returns the page with the table in its place.
fn placed(page: &str, world: &str, table: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- rents, {world} -->\n"), "<!-- end -->");
    let place = page.split_once(&begin);
    let (before, rest) =
        place.with_context(|| format!("docs/hybrid.md has no place for rents in {world}"))?;
    let (_, after) = rest.split_once(end).context("the place for rents has no end")?;
    Ok(format!("{before}{begin}{table}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(changes: impl Fn(u32, Run) -> Run) -> Runs<'static> {
        let whole = Run { ops_per_s: 1e6, p999_ns: 1e5, stall_ns: 1e6, jain: 1.0 };
        let mut all = Runs::new();
        for point in 0..20 {
            for (name, run) in [(ALL, whole), (NONE, whole), ("x", changes(point, whole))] {
                all.insert((name, "hybrid", point), vec![run; 3]);
            }
        }
        all
    }

    #[test]
    fn a_mechanism_pays_by_the_mean_by_points_or_by_tails_and_one_that_does_nothing_does_not() {
        let pays = |changes: &dyn Fn(u32, Run) -> Run| {
            let runs = runs(changes);
            rent(&ratios(&runs, "x", "hybrid"), &ratios(&runs, NONE, "hybrid"))
        };
        assert!(pays(&|_, run| run).is_empty());
        assert!(pays(&|_, run| Run { ops_per_s: run.ops_per_s * 0.99, ..run }).is_empty());
        assert_eq!(pays(&|_, run| Run { ops_per_s: run.ops_per_s * 0.98, ..run }), ["mean"]);
        let at = |slow: u32| {
            move |point, run: Run| match point < slow {
                true => Run { ops_per_s: run.ops_per_s * 0.9, ..run },
                false => run,
            }
        };
        assert!(pays(&at(1)).is_empty(), "one of twenty");
        assert_eq!(pays(&at(2)), ["points"]);
        assert_eq!(pays(&|_, run| Run { p999_ns: run.p999_ns * 1.2, ..run }), ["p99.9"]);
        assert_eq!(pays(&|_, run| Run { stall_ns: run.stall_ns * 1.2, ..run }), ["stalls"]);
        assert_eq!(pays(&|_, run| Run { jain: 0.9, ..run }), ["Jain"]);
    }

    #[test]
    fn noise_pays_for_nothing() {
        let slow = runs(|_, run| Run { stall_ns: run.stall_ns * 1.2, ..run });
        for noise in [1.2, 1.0 / 1.25] {
            let mut runs = slow.clone();
            for point in 0..20 {
                let changed = |run: &Run| Run { stall_ns: run.stall_ns * noise, ..*run };
                let of_none = runs[&(ALL, "hybrid", point)].iter().map(changed).collect();
                runs.insert((NONE, "hybrid", point), of_none);
            }
            assert!(
                rent(&ratios(&runs, "x", "hybrid"), &ratios(&runs, NONE, "hybrid")).is_empty(),
                "{noise}"
            );
        }
    }

    #[test]
    fn every_mechanism_of_the_lock_has_a_row() {
        let folder = root().join("crates/overlock/src/raw");
        let mut files = vec![folder.join("queue.rs")];
        files.extend(fs::read_dir(folder.join("queue")).unwrap().map(|file| file.unwrap().path()));
        let text: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        let mut named: Vec<&str> =
            text.split("has(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let listed = MECHANISMS.map(|one| one.name);
        named.sort_unstable();
        assert_eq!(named, BTreeSet::from(listed).into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn the_table_has_its_place() {
        let page = "a\n<!-- rents, kvm -->\nold\n<!-- end -->\nb";
        let placed_in = |world| placed(page, world, "new\n");
        assert_eq!(placed_in("kvm").unwrap(), page.replace("old", "new"));
        assert!(placed_in("threads").is_err());
        assert!(Amount::parse(&["--points"]).is_err() && Amount::parse(&["--runs", "1"]).is_err());
    }
}
