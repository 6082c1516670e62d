//! The output that a program must print under every lock: that of the first run.

use regex::bytes::Regex;

/// Lines of standard output, without those that can vary.
#[derive(Debug)]
pub(super) struct Expected {
    lines: Vec<Vec<u8>>,
    ignore: Option<Regex>,
}

impl Expected {
    pub(super) fn new(stdout: &[u8], ignore: Option<Regex>) -> Self {
        Expected { lines: kept(stdout, ignore.as_ref()), ignore }
    }

    pub(super) fn difference(&self, stdout: &[u8]) -> Option<String> {
        let found = kept(stdout, self.ignore.as_ref());
        if found == self.lines {
            return None;
        }
        let same = found.iter().zip(&self.lines).take_while(|(a, b)| a == b).count();
        let show = |lines: &[Vec<u8>]| {
            lines.get(same).map_or_else(|| "missing".into(), |line| quote(line))
        };
        let (number, is, was) = (same + 1, show(&found), show(&self.lines));
        Some(format!("line {number} is {is} and was {was} in the first run"))
    }
}

fn kept(stdout: &[u8], ignore: Option<&Regex>) -> Vec<Vec<u8>> {
    let kept = |line: &&[u8]| ignore.is_none_or(|pattern| !pattern.is_match(line));
    stdout.split(|byte| *byte == b'\n').filter(kept).map(<[u8]>::to_vec).collect()
}

/// Quotes the beginning of a line, which can be binary and of any length.
fn quote(line: &[u8]) -> String {
    const SHOWN: usize = 60;
    let dots = if line.len() > SHOWN { "..." } else { "" };
    format!("'{}{dots}'", line[..line.len().min(SHOWN)].escape_ascii())
}
