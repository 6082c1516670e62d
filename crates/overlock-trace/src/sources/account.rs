//! The kernel's account of a thread's time, in `/proc`.

/// For how long a thread has run, and for how long it could run and had no processor, in
/// nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) ran: u64,
    pub(crate) delayed: u64,
}

/// Reads the account of a thread in a process's folder of threads, and whether it can run.
pub(crate) fn read(folder: &str, thread: u32) -> Option<(Time, bool)> {
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{thread}/{name}"));
    let account = read("schedstat").ok()?;
    let mut words = account.split_whitespace().map(str::parse::<u64>);
    let (ran, delayed) = (words.next()?.ok()?, words.next()?.ok()?);
    // After the name, which can contain anything: the state.
    let stat = read("stat").unwrap_or_default();
    let can_run = stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('R'));
    Some((Time { ran, delayed }, can_run))
}

/// Returns the processes that a thread has started.
pub(crate) fn children(process: u32, thread: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{thread}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Returns the numbers in a list of ranges.
pub(crate) fn numbers(list: &str) -> impl Iterator<Item = i32> {
    let range = |part: &str| {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        Some(first.parse::<i32>().ok()?..=last.parse().ok()?)
    };
    list.split(',').filter_map(range).flatten()
}
