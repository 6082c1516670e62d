// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folded stacks, for flame graphs: the outermost function first, the holder's state last, and the
//! time waited in microseconds. FlameGraph, inferno and speedscope read them.

use crate::finding::Findings;

/// Returns a line for each stack and state of its lock's holder.
#[must_use]
pub fn lines(found: &Findings) -> String {
    let mut text = String::new();
    for (stack, kind, holder) in &found.stacks {
        let frames: Vec<String> = stack.iter().rev().map(|frame| clean(frame)).collect();
        for (state, ns) in holder.named().iter().filter(|(_, ns)| *ns >= 1000) {
            text += &format!("{};[{kind}];[holder {state}] {}\n", frames.join(";"), ns / 1000);
        }
    }
    text
}

/// Semicolons separate frames.
fn clean(frame: &str) -> String {
    frame.replace(';', ":")
}
