//! A program in another language that waits for work on stdin, so that its start is not measured.

use crate::Result;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub(crate) struct Helper {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Helper {
    /// Starts it and waits for its first line.
    pub(crate) fn start(name: &str, command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|e| format!("{name}: {e}"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().ok_or("no stdout")?);
        let mut helper = Self { child, stdin, stdout: BufReader::new(stdout) };
        helper.line().map_err(|_| format!("{name} is not installed"))?;
        Ok(helper)
    }

    pub(crate) fn ask(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().ok_or("it was ended")?;
        writeln!(stdin, "{line}").map_err(|e| e.to_string())?;
        self.line().map(|_| ())
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.stdout.read_line(&mut line) {
            Ok(0) => Err("it has ended".to_owned()),
            Ok(_) => Ok(line),
            Err(e) => Err(e.to_string()),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It ends with its input.
        self.stdin = None;
        let _ = self.child.wait();
    }
}
