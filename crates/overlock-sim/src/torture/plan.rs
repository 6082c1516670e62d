//! What a run does, in a form that can be typed: `random:SEED:STEPS[:CPUS]` or
//! `inject:SCRIPT:ROLE:STEP[:STEP]`.

use std::fmt;
use std::str::FromStr;

use crate::torture::conditions::CPUS;
use crate::torture::script::{ROLES, SCRIPTS};

/// A run. Together with a subject, it determines everything that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPlan {
    /// A random world, random work and random faults.
    Random {
        seed: u64,
        /// How many atomic accesses are made before no more work is begun.
        steps: u64,
        /// How many CPUs there are; `None` leaves it to the seed.
        cpus: Option<usize>,
    },
    /// A fixed script in which one CPU is taken away at one step.
    Inject {
        script: usize,
        /// The CPU that is taken away: 0 the holder, 1 the queue head, 2 the next, 3 the newcomer.
        role: usize,
        /// The step at which it is taken away.
        step: u64,
        /// The later step at which, once it is back, it is interrupted; `None` means never.
        then: Option<u64>,
    },
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Random { seed, steps, cpus: None } => write!(f, "random:{seed:#x}:{steps}"),
            Self::Random { seed, steps, cpus: Some(cpus) } => {
                write!(f, "random:{seed:#x}:{steps}:{cpus}")
            }
            Self::Inject { script, role, step, then } => {
                write!(f, "inject:{}:{}:{step}", SCRIPTS[script].name, ROLES[role])?;
                then.map_or(Ok(()), |then| write!(f, ":{then}"))
            }
        }
    }
}

impl FromStr for FaultPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["random", seed, steps] => {
                Ok(Self::Random { seed: number(seed)?, steps: number(steps)?, cpus: None })
            }
            ["random", seed, steps, cpus] => {
                let cpus = usize::try_from(number(cpus)?).unwrap_or(0);
                if !(2..=CPUS).contains(&cpus) {
                    return Err(format!("{cpus} CPUs are outside 2 to {CPUS}"));
                }
                Ok(Self::Random { seed: number(seed)?, steps: number(steps)?, cpus: Some(cpus) })
            }
            ["inject", script, role, step] => inject(script, role, step, None),
            ["inject", script, role, step, then] => inject(script, role, step, Some(then)),
            _ => Err(format!(
                "'{text}' is no run; a run is random:SEED:STEPS[:CPUS] or inject:SCRIPT:ROLE:STEP[:STEP]"
            )),
        }
    }
}

fn inject(script: &str, role: &str, step: &str, then: Option<&str>) -> Result<FaultPlan, String> {
    let names = SCRIPTS.iter().map(|script| script.name);
    let script = place(names, script, "script")?;
    let then = then.map(number).transpose()?;
    if then.is_some() && SCRIPTS[script].hit_twice() == 0 {
        return Err(format!("no CPU is hit twice in the script '{}'", SCRIPTS[script].name));
    }
    Ok(FaultPlan::Inject {
        script,
        role: place(ROLES[..SCRIPTS[script].cpus].iter().copied(), role, "role")?,
        step: number(step)?,
        then,
    })
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}' is not a number"))
}

fn place<'a>(
    mut names: impl Iterator<Item = &'a str> + Clone,
    name: &str,
    what: &str,
) -> Result<usize, String> {
    names.clone().position(|known| known == name).ok_or_else(|| {
        let first = names.next().unwrap_or_default().to_owned();
        let known = names.fold(first, |all, name| format!("{all}, {name}"));
        format!("there is no {what} '{name}'; choose from {known}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_can_be_typed_again() {
        for plan in [
            FaultPlan::Random { seed: u64::MAX, steps: 20_000, cpus: None },
            FaultPlan::Random { seed: 0, steps: 1, cpus: Some(3) },
            FaultPlan::Inject { script: 1, role: 2, step: 17, then: None },
            FaultPlan::Inject { script: SCRIPTS.len() - 1, role: 0, step: 17, then: Some(18) },
        ] {
            assert_eq!(plan.to_string().parse(), Ok(plan));
        }
        assert_eq!("random:17:5".parse(), Ok(FaultPlan::Random { seed: 17, steps: 5, cpus: None }));
    }

    #[test]
    fn bad_plans_say_why() {
        for (text, part) in [
            ("", "is no run"),
            ("random:x:1", "'x' is not a number"),
            ("random:1:1:9", "9 CPUs are outside 2 to 8"),
            ("inject:nothing:head:0", "there is no script 'nothing'; choose from spin, halt"),
            ("inject:spin:head:0:1", "no CPU is hit twice in the script 'spin'"),
            ("inject:spin:tail:0", "there is no role 'tail'; choose from holder, head, next"),
        ] {
            let error = text.parse::<FaultPlan>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
