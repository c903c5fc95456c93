//! File systems of our own, to be cut off and filled up. Always unmounted.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::proof::Trouble;

#[derive(Debug)]
pub(crate) struct Mount {
    point: PathBuf,
    /// The image of a loop mount, which can be mounted again.
    image: Option<PathBuf>,
}

impl Mount {
    /// A new ext4 in an image file below `home`.
    pub(crate) fn ext4(home: &Path, bytes: u64) -> Result<Mount, Trouble> {
        let (image, point) = (home.join("image"), home.join("mnt"));
        File::create(&image)?.set_len(bytes)?;
        fs::create_dir(&point)?;
        must("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), image.as_os_str()])?;
        let mount = Mount { point, image: Some(image) };
        mount.attach()?;
        Ok(mount)
    }

    pub(crate) fn tmpfs(home: &Path, bytes: u64) -> Result<Mount, Trouble> {
        let point = home.join("mnt");
        fs::create_dir(&point)?;
        let size = format!("size={bytes}");
        must(
            "mount",
            &[
                "-t".as_ref(),
                "tmpfs".as_ref(),
                "-o".as_ref(),
                size.as_ref(),
                "tmpfs".as_ref(),
                point.as_os_str(),
            ],
        )?;
        Ok(Mount { point, image: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.point
    }

    /// Takes the file system away and reads it back from its image, as after a power cut.
    pub(crate) fn again(&self) -> Result<(), Trouble> {
        must("umount", &[self.point.as_os_str()])?;
        self.attach()
    }

    fn attach(&self) -> Result<(), Trouble> {
        let image =
            self.image.as_deref().ok_or_else(|| Trouble::failed("only an image can be mounted again"))?;
        must("mount", &["-o".as_ref(), "loop".as_ref(), image.as_os_str(), self.point.as_os_str()])
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily, in case a process of a proof that broke down still has a file open.
        let _ = quiet("umount", &["-l".as_ref(), self.point.as_os_str()]);
    }
}

/// Why this machine cannot mount what a proof needs, if it cannot.
pub(crate) fn obstacle(programs: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root to mount a file system".to_owned());
    }
    let missing = programs.iter().find(|program| !exists(program));
    missing.map(|program| format!("needs {program}, which is not installed"))
}

/// The administrator's folders count too: they are missing from the PATH of most users.
pub(crate) fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let known = ["/usr/sbin".into(), "/sbin".into()];
    std::env::split_paths(&path).chain(known).any(|folder| folder.join(program).is_file())
}

fn must(program: &str, arguments: &[&OsStr]) -> Result<(), Trouble> {
    match quiet(program, arguments) {
        Ok(words) if words.is_empty() => Ok(()),
        Ok(words) => Err(Trouble::failed(format!("{program} failed: {words}"))),
        Err(error) => Err(Trouble::failed(format!("{program} could not be run: {error}"))),
    }
}

/// Runs a program; what it said if it failed, nothing if it did not.
fn quiet(program: &str, arguments: &[&OsStr]) -> io::Result<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(String::new());
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok(if words.is_empty() { output.status.to_string() } else { words })
}
