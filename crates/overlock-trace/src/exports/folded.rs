//! Folded stacks, for flame graphs: the outermost function first, then what for, then who ended it,
//! then, of a lock, the holder's state, and the time in microseconds. FlameGraph, inferno and
//! speedscope read them.

use crate::verdicts::Findings;

/// Returns a line for each stack and state of its lock's holder.
#[must_use]
pub fn lines(found: &Findings) -> String {
    let mut text = String::new();
    for stack in &found.stacks {
        let frames: Vec<String> = stack.functions.iter().rev().map(|frame| clean(frame)).collect();
        let ender = stack.ender.as_ref().map(|who| format!(";[by {}]", clean(who)));
        let mut line = |state: &str, ns: u64| {
            if ns >= 1000 {
                let (frames, kind) = (frames.join(";"), stack.kind);
                let ender = ender.as_deref().unwrap_or_default();
                text += &format!("{frames};[{kind}]{ender}{state} {}\n", ns / 1000);
            }
        };
        for (state, ns) in stack.holder.named() {
            line(&format!(";[holder {state}]"), ns);
        }
        line("", stack.slept_ns.saturating_sub(stack.holder.total()));
    }
    text
}

/// Semicolons separate frames.
fn clean(frame: &str) -> String {
    frame.replace(';', ":")
}
