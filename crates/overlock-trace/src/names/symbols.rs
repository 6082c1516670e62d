//! Names for addresses: functions, inlined ones too, files and lines.

use crate::analysis::Site;
use crate::names::images::Images;
use addr2line::Loader;
use object::{Object as _, ObjectSymbol as _};
use std::collections::HashMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) function: String,
    /// File and line, where the program has them.
    pub(crate) line: Option<String>,
    /// The last part of the path of the library or program.
    pub(crate) module: String,
}

/// The symbols of all files that were asked for.
#[derive(Default)]
pub(crate) struct Symbols {
    files: HashMap<String, File>,
    /// The code that each process has compiled, where it tells.
    compiled: HashMap<u32, File>,
}

#[derive(Default)]
struct File {
    lines: Option<Loader>,
    /// Address, size and name, by address.
    functions: Vec<(u64, u64, String)>,
}

impl Symbols {
    /// Names the functions of a stack, the innermost first.
    pub(crate) fn stack(&mut self, images: &Images, site: Site) -> Vec<Frame> {
        let Some(frames) = images.frames(site) else { return Vec::new() };
        let mut named = Vec::new();
        for (depth, address) in frames.addresses.iter().enumerate() {
            // A return address belongs to the instruction before it.
            let address = address.saturating_sub(u64::from(depth > 0));
            match images.file(frames, address) {
                Some((path, at)) => {
                    let new = || File::new(&images.readable(path));
                    let file = self.files.entry(path.to_owned()).or_insert_with(new);
                    file.name(path, at, &mut named);
                }
                None => {
                    let process = images.process(frames).unwrap_or(0);
                    let file = self.compiled.entry(process).or_insert_with(|| {
                        let path = format!("/tmp/perf-{process}.map");
                        File::compiled(&std::fs::read_to_string(path).unwrap_or_default())
                    });
                    let function = file.symbol(address).unwrap_or(format!("{address:#x}"));
                    named.push(Frame { function, ..Frame::default() });
                }
            }
        }
        named
    }
}

impl File {
    fn new(path: &str) -> Self {
        let mut functions = Vec::new();
        if let Ok(bytes) = std::fs::read(path)
            && let Ok(file) = object::File::parse(&*bytes)
        {
            let all = file.symbols().chain(file.dynamic_symbols());
            let sized = all.filter(|symbol| symbol.size() > 0 && symbol.is_definition());
            functions.extend(sized.filter_map(|symbol| {
                Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned()))
            }));
            functions.sort();
        }
        File { lines: Loader::new(path).ok(), functions }
    }

    /// Reads what a runtime writes of the code that it compiles, in `perf`'s format: the address
    /// and the size in hexadecimal, and the name. Later lines may take the place of earlier ones.
    fn compiled(text: &str) -> Self {
        let function = |line: &str| {
            let mut fields = line.splitn(3, ' ');
            let mut number = || {
                let field = fields.next()?;
                u64::from_str_radix(field.strip_prefix("0x").unwrap_or(field), 16).ok()
            };
            Some((number()?, number()?, fields.next()?.to_owned()))
        };
        let mut functions: Vec<_> = text.lines().filter_map(function).collect();
        functions.sort_by_key(|(start, ..)| *start);
        File { lines: None, functions }
    }

    /// Adds the functions at an address: those that are inlined there, and the one that is called.
    fn name(&self, path: &str, at: u64, named: &mut Vec<Frame>) {
        let module = path.rsplit('/').next().unwrap_or(path).to_owned();
        let before = named.len();
        if let Some(lines) = &self.lines
            && let Ok(mut frames) = lines.find_frames(at)
        {
            while let Ok(Some(frame)) = frames.next() {
                let line = frame.location.and_then(|place| {
                    let file = place.file?.rsplit('/').next()?.to_owned();
                    Some(place.line.map_or(file.clone(), |line| format!("{file}:{line}")))
                });
                let function =
                    frame.function.and_then(|name| Some(name.demangle().ok()?.into_owned()));
                let function = function.or_else(|| self.symbol(at));
                let Some(function) = function else { continue };
                named.push(Frame { function, line, module: module.clone() });
            }
        }
        if named.len() == before {
            let function = self.symbol(at).unwrap_or_else(|| format!("{module}+{at:#x}"));
            named.push(Frame { function, line: None, module });
        }
    }

    fn symbol(&self, at: u64) -> Option<String> {
        let next = self.functions.partition_point(|(start, ..)| *start <= at);
        let near = self.functions[..next].iter().rev().take(8);
        let (.., name) = near.into_iter().find(|(start, size, _)| at - start < *size)?;
        let plain = name.split('@').next().unwrap_or(name);
        // A function of C may be named as the demangler writes a type of C++.
        match plain.starts_with('_') {
            true => Some(addr2line::demangle_auto(plain.into(), None).into_owned()),
            false => Some(plain.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_code_has_the_names_that_its_runtime_wrote() {
        let text = "7f00 40 Interpreter\n0x7f40 0x20 java.lang.String Broker.send(int)\nbad\n\
                    7f40 20 void Broker.poll()\n";
        let file = File::compiled(text);
        assert_eq!(file.symbol(0x7f3f).unwrap(), "Interpreter");
        assert_eq!(file.symbol(0x7f5f).unwrap(), "void Broker.poll()");
        assert_eq!(file.symbol(0x7f60), None);
    }
}
