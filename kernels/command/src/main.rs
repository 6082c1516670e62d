//! The command `overlock` with three more worlds, which boot a kernel with the locks in it.

use overlock_cli::Added;
use overlock_kernels::Image;
use std::process::ExitCode;

fn main() -> ExitCode {
    overlock_cli::main(&Added {
        experiments: &[
            ("guest", include_str!("../guest.toml")),
            ("guest-xen", include_str!("../guest-xen.toml")),
        ],
        worlds: &[("tcg", "guest"), ("kvm-guest", "guest"), ("xen", "guest-xen")],
        locks: Added::NOTHING.locks,
        more: Added::NOTHING.more,
        missing: overlock_kernels::missing,
        open: |name, options| Ok(Box::new(Image::new(name, options.note)?)),
    })
}
