//! Waiting for jobs and their output on tokio (feature `tokio`).
//!
//! Every future here is safe to drop: dropping one stops the waiting and nothing else. The teardown is the
//! keeper's, and no state of it is in the future.

use crate::error::{Error, Result};
use crate::job::{Job, News};
use crate::output::{Captured, Output};
use killcord_model::job::DRAIN;
use killcord_model::verdict::End;
use killcord_sys::descriptors;
use killcord_sys::os::asynchronous::{Receiver, Sender, Socket};
use killcord_sys::os::{AsFd, OwnedFd};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use tokio::time::Instant;

/// What became of a job whose keeper was killed, being found out on another thread.
pub(crate) type Inquiry = tokio::task::JoinHandle<End>;

impl Job {
    /// Like [`Job::wait`], for tokio. Dropping the future only stops the waiting.
    ///
    /// # Errors
    /// As [`Job::wait`].
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time enabled, as what tokio has for them does.
    pub async fn wait_async(&mut self) -> Result<End> {
        let failed = Error::io("wait for the job");
        if let Some(end) = self.last_end() {
            return Ok(end);
        }
        // A copy of the cord, which is closed with this future.
        let cord = self.as_fd().try_clone_to_owned().map_err(&failed)?;
        descriptors::never_wait(cord.as_fd()).map_err(&failed)?;
        let cord = Socket::new(cord).map_err(&failed)?;
        loop {
            if let Some(inquiry) = &mut self.inquiry {
                let end = inquiry.await;
                self.inquiry = None;
                match end {
                    Ok(end) => {
                        self.keep_end(end.clone());
                        return Ok(end);
                    }
                    Err(e) if e.is_panic() => return Err(failed(io::Error::other(e))),
                    // The runtime that it began on is gone; the cord still says that there is something to ask.
                    Err(_) => {}
                }
            }
            let mut news = self.news();
            if news.is_none() {
                // Only a look in here may forget the readiness: a report that comes between a look before it and
                // the wait would be forgotten with it.
                let _ = cord.look(|| {
                    news = self.news();
                    news.is_some().then_some(()).ok_or_else(|| io::ErrorKind::WouldBlock.into())
                });
            }
            match news {
                Some(News::End(end)) => return Ok(end),
                // It waits for the warden and may look through /proc: not on this thread. Whoever waits next
                // waits for the same answer.
                Some(News::Lost(lost)) => {
                    self.inquiry = Some(tokio::task::spawn_blocking(move || lost.end()));
                }
                None => match self.due_in() {
                    None => cord.readable().await.map_err(&failed)?,
                    // Without a keeper it is we who act when the time is up.
                    Some(left) => {
                        if let Ok(readable) = tokio::time::timeout(left, cord.readable()).await {
                            readable.map_err(&failed)?;
                        }
                    }
                },
            }
        }
    }

    /// Like [`Job::into_output`], for tokio. Dropping the future drops the job, which ends it.
    ///
    /// # Errors
    /// As [`Job::wait`].
    ///
    /// # Panics
    /// As [`Job::wait_async`].
    pub async fn into_output_async(mut self, keep: usize) -> Result<Output> {
        self.stdin = None;
        let stdout = self.stdout.take().map(OwnedFd::from);
        let terminal = self.terminal.take().map(OwnedFd::from);
        let mut first = Stream::new(stdout.or(terminal), keep)?;
        let mut second = Stream::new(self.stderr.take().map(OwnedFd::from), keep)?;
        let end = self.end_and_output(both_of(first.read(), second.read())).await?;
        Ok(Output { end, stdout: first.captured, stderr: second.captured })
    }

    /// Waits for the end while the output is read, and a short while longer for the rest of it.
    async fn end_and_output(&mut self, reading: impl Future<Output = ()>) -> Result<End> {
        let (mut reading, mut ended) = (pin!(reading), pin!(self.wait_async()));
        let mut read = false;
        // The end comes first: a flood would take all of the task's budget, in every round.
        let end = poll_fn(|context| {
            let end = ended.as_mut().poll(context);
            if end.is_pending() {
                read = read || reading.as_mut().poll(context).is_ready();
            }
            end
        });
        let end = end.await?;
        if !read {
            // What was written before the end is read; who still holds a stream is not waited for.
            let _ = tokio::time::timeout_at(Instant::now() + DRAIN, reading.as_mut()).await;
        }
        Ok(end)
    }

    /// The pipe from the job's standard output as a tokio stream, if it was asked for.
    ///
    /// # Errors
    /// What tokio says of the pipe.
    pub fn take_stdout_async(&mut self) -> io::Result<Option<Receiver>> {
        self.stdout.take().map(|out| Receiver::from_owned_fd(out.into())).transpose()
    }

    /// The pipe from the job's standard error as a tokio stream, if it was asked for.
    ///
    /// # Errors
    /// What tokio says of the pipe.
    pub fn take_stderr_async(&mut self) -> io::Result<Option<Receiver>> {
        self.stderr.take().map(|err| Receiver::from_owned_fd(err.into())).transpose()
    }

    /// The pipe to the job's standard input as a tokio sink, if it was asked for.
    ///
    /// # Errors
    /// What tokio says of the pipe.
    pub fn take_stdin_async(&mut self) -> io::Result<Option<Sender>> {
        self.stdin.take().map(|input| Sender::from_owned_fd(input.into())).transpose()
    }
}

/// One stream that is read to its end.
struct Stream {
    /// A pipe, or a terminal's master, which is waited for and read just like one.
    fd: Option<Receiver>,
    captured: Captured,
}

impl Stream {
    fn new(fd: Option<OwnedFd>, keep: usize) -> Result<Self> {
        let prepare = |fd: OwnedFd| {
            descriptors::never_wait(fd.as_fd())?;
            Receiver::from_owned_fd_unchecked(fd)
        };
        let fd = fd.map(prepare).transpose().map_err(Error::io("read the job's output"))?;
        Ok(Self { fd, captured: Captured::new(keep) })
    }

    /// Reads to the end. Dropping the future loses nothing that was read.
    async fn read(&mut self) {
        let mut buffer = vec![0u8; 64 * 1024];
        while let Some(fd) = &self.fd {
            if fd.readable().await.is_err() {
                return;
            }
            match fd.try_read(&mut buffer) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Ok(n) if n > 0 => self.captured.take(&buffer[..n]),
                // The end; a terminal says it by EIO.
                Ok(_) | Err(_) => return,
            }
        }
    }
}

/// Both, at once.
async fn both_of(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let mut ready = [false; 2];
    poll_fn(|context| {
        ready[0] = ready[0] || a.as_mut().poll(context).is_ready();
        ready[1] = ready[1] || b.as_mut().poll(context).is_ready();
        if ready == [true; 2] { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
