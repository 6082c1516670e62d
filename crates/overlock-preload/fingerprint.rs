// Part of two build scripts: the library's, and that of the command, which has to recognise the
// library that was built with it.

/// Hashes the library's sources (FNV-1a): those in `src`, and those of the lock library if they are
/// in `overlock`.
fn fingerprint(src: &std::path::Path, overlock: &std::path::Path) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for folder in [src, overlock] {
        for path in files(folder) {
            let name = path.strip_prefix(folder).expect("it lies there").display().to_string();
            let content = std::fs::read(&path).expect("it was there just now");
            for byte in name.bytes().chain(content) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    format!("{hash:016x}")
}

/// Returns all files below a folder, in an order that does not vary.
fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}
