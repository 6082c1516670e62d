//! What to run.

use std::path::PathBuf;

/// What went wrong, for people.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) cpus: u8,
    /// Whether the guest is told that its vCPUs are never taken off their processors.
    pub(crate) realtime: bool,
    /// Whether the guest is offered the kick.
    pub(crate) unhalt: bool,
    /// Where the host's scheduler has put its page.
    pub(crate) page: Option<PathBuf>,
    pub(crate) image: PathBuf,
    pub(crate) line: String,
}

const USAGE: &str = "usage: overlock-vmm [--cpus=N] [--page=PATH] [--realtime] [--no-unhalt] KERNEL \
                     COMMAND-LINE...";

impl Options {
    /// Understands the words of a command.
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            cpus: 1,
            realtime: false,
            unhalt: true,
            page: None,
            image: PathBuf::new(),
            line: String::new(),
        };
        let mut words = words.into_iter();
        let image = loop {
            let word = words.next().ok_or(USAGE)?;
            match word.split_once('=') {
                Some(("--cpus", n)) => options.cpus = n.parse()?,
                Some(("--page", path)) => options.page = Some(path.into()),
                _ if word == "--realtime" => options.realtime = true,
                _ if word == "--no-unhalt" => options.unhalt = false,
                _ if word.starts_with('-') => return Err(USAGE.into()),
                _ => break word,
            }
        };
        options.image = image.into();
        options.line = words.collect::<Vec<_>>().join(" ");
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_before_the_kernel() {
        let parse = |line: &str| Options::parse(line.split(' ').map(String::from));
        let found = parse("--cpus=8 --no-unhalt image do=micro --cpus=2").unwrap();
        assert_eq!((found.cpus, found.unhalt, found.realtime), (8, false, false));
        assert_eq!(found.image, PathBuf::from("image"));
        assert_eq!(found.line, "do=micro --cpus=2");
        assert!(parse("--cpus=8").is_err());
        assert!(parse("--what image").is_err());
    }
}
