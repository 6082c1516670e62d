// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first process of a Linux that has nothing else: loads KVM, runs one machine, and powers off.
//!
//! The root that it starts in holds this program as `/init`, the modules below `/modules` in the
//! order of their names, and in `/guest` the words of the command, one a line.

use std::ffi::CStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::{io, ptr};

use crate::machine::Machine;
use crate::options::{Options, Result};

/// The words of the command.
const GUEST: &str = "/guest";

fn mount(kind: &CStr, at: &CStr) -> io::Result<()> {
    fs::create_dir_all(at.to_str().unwrap_or("/"))?;
    // SAFETY: strings that end in zero; no data.
    let done = unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, ptr::null()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn load_modules() -> Result<()> {
    let mut modules: Vec<PathBuf> =
        fs::read_dir("/modules")?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    modules.sort();
    for path in modules {
        let file = File::open(&path)?;
        // SAFETY: a file that is open, and a string that ends in zero.
        let done =
            unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
        if done != 0 {
            let error = io::Error::last_os_error();
            return Err(format!("{} can't be loaded: {error}", path.display()).into());
        }
    }
    Ok(())
}

fn machine() -> Result<u8> {
    mount(c"devtmpfs", c"/dev")?;
    mount(c"sysfs", c"/sys")?;
    mount(c"debugfs", c"/sys/kernel/debug")?;
    load_modules()?;
    let words = fs::read_to_string(GUEST)?;
    let options = Options::parse(words.lines().map(String::from))?;
    Machine::new(&options)?.run()
}

/// Does it all. Does not return.
#[expect(clippy::print_stdout, reason = "its console is what people read")]
pub(crate) fn run() -> ! {
    match machine() {
        Ok(code) => println!("the machine ended with code {code}"),
        Err(error) => println!("the machine ended: {error}"),
    }
    // SAFETY: nothing is left to be written.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    loop {
        std::thread::park();
    }
}
