//! What a thread does: the one type for it, from what a source tells to what is printed.

/// A place in a program that the source can name, such as a stack of return addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site(pub u32);

/// Why a thread sleeps, as a number that the source can explain; 0 is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason(pub u32);

/// What a thread does, or what the holder of a lock does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It runs.
    Running,
    /// It could run, but has no processor.
    Preempted,
    /// It could run, but its group has spent its quota of processor time.
    Throttled,
    /// It sleeps for a reason, at a place.
    Asleep(Reason, Site),
    /// It sleeps in a wait on a word, at a place.
    Waiting(u64, Site),
    /// The lock was released, and the thread that was woken for it has not come yet: the lock is
    /// free, or a thread that has left no trace has it.
    Late,
    #[default]
    Unknown,
}

/// How many states there are, without what comes with them.
const COUNT: usize = 7;
/// The words for each: its name in records, the head of its column, and what a holder did.
const WORDS: [[&str; 3]; COUNT] = [
    ["running", "ran", "ran"],
    ["preempted", "preempted", "had no processor"],
    ["throttled", "throttled", "had no quota"],
    ["asleep", "slept", "slept"],
    ["waiting", "slept", "slept"],
    ["late", "late", "was late"],
    ["unknown", "unknown", "is unknown"],
];

impl State {
    /// What the holder of a lock may do.
    pub const HOLDERS: [State; 6] = [
        State::Running,
        State::Preempted,
        State::Throttled,
        State::Asleep(Reason(0), Site(0)),
        State::Late,
        State::Unknown,
    ];

    const fn index(self) -> usize {
        match self {
            State::Running => 0,
            State::Preempted => 1,
            State::Throttled => 2,
            State::Asleep(..) => 3,
            State::Waiting(..) => 4,
            State::Late => 5,
            State::Unknown => 6,
        }
    }

    /// Returns the word for it that records have.
    #[must_use]
    pub fn name(self) -> &'static str {
        WORDS[self.index()][0]
    }

    /// Returns the head of its column.
    #[must_use]
    pub fn head(self) -> &'static str {
        WORDS[self.index()][1]
    }

    /// Returns what a holder did that was in it.
    #[must_use]
    pub fn did(self) -> &'static str {
        WORDS[self.index()][2]
    }

    /// A sleep of which nothing else is known.
    #[must_use]
    pub fn asleep() -> Self {
        State::Asleep(Reason(0), Site(0))
    }

    /// Returns the state without what comes with it.
    pub(crate) fn plain(self) -> Self {
        match self {
            State::Asleep(..) => State::asleep(),
            State::Waiting(..) => State::Waiting(0, Site(0)),
            state => state,
        }
    }

    /// Returns whether a thread in this state has to be woken.
    #[must_use]
    pub fn sleeps(self) -> bool {
        matches!(self, State::Asleep(..) | State::Waiting(..))
    }
}

/// Nanoseconds in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times([u64; COUNT]);

impl Times {
    /// Returns the time in a state, whatever comes with it.
    #[must_use]
    pub fn of(&self, state: State) -> u64 {
        self.0[state.index()]
    }

    /// Adds time in a state.
    pub fn add(&mut self, state: State, ns: u64) {
        self.0[state.index()] += ns;
    }

    /// Moves time from one state to another, as much as there is.
    pub fn shift(&mut self, from: State, to: State, ns: u64) {
        let ns = ns.min(self.of(from));
        self.0[from.index()] -= ns;
        self.0[to.index()] += ns;
    }

    pub fn add_all(&mut self, other: &Times) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, ns)| *sum += ns);
    }

    /// Returns the times with their names, in a fixed order.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); COUNT] {
        std::array::from_fn(|index| (WORDS[index][0], self.0[index]))
    }

    /// Returns what a holder did for most of the time.
    #[must_use]
    pub fn largest(&self) -> State {
        State::HOLDERS.into_iter().max_by_key(|state| self.of(*state)).unwrap_or(State::Unknown)
    }

    /// Returns the time in all states.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
