//! What threads use their locks for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Task {
    /// Each operation excludes all others.
    #[default]
    Exclude,
    /// This percentage of the operations only reads, beside other readers.
    Read(u8),
    /// Pairs of threads wait for one another in turn.
    PingPong,
    /// Half of the threads fill a buffer of 16 places, the others empty it.
    ProducerConsumer,
    /// One thread releases all others at once, as soon as all have come.
    Broadcast,
}

impl Task {
    /// Those that wait for a condition, by the names that `bench --workload` knows.
    pub const WAITS: [(&str, Self); 3] = [
        ("ping-pong", Self::PingPong),
        ("producer-consumer", Self::ProducerConsumer),
        ("broadcast", Self::Broadcast),
    ];

    pub fn waiting(name: &str) -> Option<Self> {
        Self::WAITS.into_iter().find(|(known, _)| *known == name).map(|(_, task)| task)
    }

    /// Whether threads wait for a condition, not only for the lock.
    pub fn waits(self) -> bool {
        Self::WAITS.iter().any(|(_, task)| *task == self)
    }

    pub fn reads(self) -> bool {
        matches!(self, Self::Read(_))
    }

    pub fn read_share(self) -> u8 {
        if let Self::Read(percent) = self { percent } else { 0 }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclude => f.write_str("exclude"),
            Self::Read(percent) => write!(f, "read-{percent}"),
            waits => {
                let known = Self::WAITS.iter().find(|(_, task)| task == waits);
                f.write_str(known.map_or("", |(name, _)| name))
            }
        }
    }
}

impl FromStr for Task {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let percent = name.strip_prefix("read-").and_then(|percent| percent.parse().ok());
        let known = match percent.filter(|percent| *percent <= 100) {
            Some(percent) => Some(Self::Read(percent)),
            None if name == "exclude" => Some(Self::Exclude),
            None => Self::waiting(name),
        };
        known.ok_or_else(|| {
            let waits = Self::WAITS.map(|(name, _)| name).join(", ");
            Error(format!(
                "no task is called {name}; there are exclude, read-0 to read-100, {waits}"
            ))
        })
    }
}

impl From<Task> for String {
    fn from(task: Task) -> Self {
        task.to_string()
    }
}

impl TryFrom<String> for Task {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read_as_it_was_written() {
        let waits = Task::WAITS.map(|(_, task)| task);
        for task in [Task::Exclude, Task::Read(0), Task::Read(100)].into_iter().chain(waits) {
            assert_eq!(task.to_string().parse::<Task>().unwrap(), task);
        }
        for none in ["read-101", "read-", "read", "nonsense"] {
            assert!(none.parse::<Task>().unwrap_err().to_string().contains(none));
        }
    }
}
