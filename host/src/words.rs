//! The words of a command: `--name value`, switches, and the rest.

use anyhow::{Context, Result, bail};
use std::str::FromStr;

/// Words that are being understood.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    rest: &'a [String],
    usage: &'static str,
}

impl<'a> Words<'a> {
    pub(crate) fn new(rest: &'a [String], usage: &'static str) -> Self {
        Self { rest, usage }
    }

    pub(crate) fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    pub(crate) fn value<T: FromStr>(&mut self, name: &str) -> Result<T> {
        let usage = self.usage;
        let word = self.next().with_context(|| format!("{name} wants a value\n{usage}"))?;
        word.parse().ok().with_context(|| format!("{name} can't be {word}\n{usage}"))
    }

    /// The numbers of the option `name`, with commas between.
    pub(crate) fn numbers(&mut self, name: &str) -> Result<Vec<u32>> {
        let list: String = self.value(name)?;
        let ids = list.split(',').map(str::parse).collect::<Result<Vec<_>, _>>();
        ids.ok().with_context(|| format!("{name} wants numbers with commas between, not {list}"))
    }

    pub(crate) fn unknown<T>(&self, word: &str) -> Result<T> {
        bail!("{word} is not understood\n{}", self.usage)
    }
}
