//! Which instructions of a program are atomic, and which reach a thread-local variable: read from the disassembly of
//! objdump.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Addresses of instructions in one file.
#[derive(Default)]
pub struct Addresses {
    /// All that were understood.
    pub known: HashSet<u64>,
    /// Of atomic ones.
    pub atomic: HashSet<u64>,
    /// Of those that reach a thread-local variable.
    pub thread_local: HashSet<u64>,
}

/// Reads a program or library for x86-64; `None` where objdump is not installed or cannot read it, and on other
/// processors.
pub fn read(object: &Path) -> Option<Addresses> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let mut objdump = Command::new("objdump")
        .args(["--disassemble", "--no-show-raw-insn"])
        .arg(object)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let lines = BufReader::new(objdump.stdout.take()?).split(b'\n').map_while(Result::ok);
    let mut found = Addresses::default();
    for line in lines {
        let Some((address, text)) = instruction(&String::from_utf8_lossy(&line)) else { continue };
        found.known.insert(address);
        if is_atomic(&text) {
            found.atomic.insert(address);
        }
        if is_thread_local(&text) {
            found.thread_local.insert(address);
        }
    }
    objdump.wait().ok()?.success().then_some(found)
}

/// Address and text of a line such as `1f0a:`, a tab, `lock xadd %rax,(%rdi)`.
fn instruction(line: &str) -> Option<(u64, String)> {
    let (address, text) = line.split_once(":\t")?;
    Some((u64::from_str_radix(address.trim(), 16).ok()?, text.trim().to_owned()))
}

/// Whether it is locked; an exchange with memory always is.
fn is_atomic(text: &str) -> bool {
    text.starts_with("lock ") || (text.starts_with("xchg ") && (text.contains('(') || text.contains("%fs:")))
}

/// Whether it reads or writes relative to `fs`, which points to the variables of a thread. At 0x28 lies the stack
/// protector.
fn is_thread_local(text: &str) -> bool {
    let operand = |rest: &str| rest.chars().take_while(char::is_ascii_alphanumeric).collect::<String>();
    text.split("%fs:").skip(1).any(|rest| operand(rest) != "0x28")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_known_by_its_text() {
        let (address, text) = instruction("    1f0a:\tlock xadd %rax,(%rdi)").unwrap();
        assert_eq!(address, 0x1f0a);
        assert!(is_atomic(&text) && !is_thread_local(&text));
        assert!(
            is_atomic("xchg   %al,(%rdi)")
                && !is_atomic("xchg   %ax,%ax")
                && !is_atomic("cmpxchg %cl,(%rdi)")
        );
        assert!(is_thread_local("mov    %fs:0x0,%rax") && !is_thread_local("sub    %fs:0x28,%rax"));
        assert!(is_thread_local("mov    %fs:0x280,%rax") && is_atomic("xchg   %rax,%fs:0x10"));
        assert_eq!(instruction("0000000000001f00 <main>:"), None);
    }
}
