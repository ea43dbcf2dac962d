//! Sockets that were passed on: connected, of datagrams, listening.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

use super::super::abi::fdflags;
use super::super::stdio::Stream;
use super::waits::{in_time, released};
use super::*;

const PEEK: u32 = 1;
const WAITALL: u32 = 2;

fn with_socket(socket: impl Into<OwnedFd>) -> Process {
    Process::new(WasiCtx::builder().stdin(Stream::Descriptor(socket.into())))
}

impl Process {
    /// `sock_recv`: what arrived, and whether it was cut.
    fn receive(&self, fd: u32, length: usize, flags: u32) -> Result<(Vec<u8>, bool)> {
        let at = self.guest.space(length);
        let iovecs = self.guest.iovecs(&[(at, length as u64)]);
        let (count, out) = (self.guest.space(4), self.guest.space(2));
        self.call().sock_recv(fd, iovecs, 1, flags, count, out)?;
        Ok((self.guest.get(at, self.guest.u32(count) as usize), self.guest.u16(out) == 1))
    }

    /// `sock_send`
    fn send(&self, fd: u32, bytes: &[u8]) -> Result<u32> {
        let at = self.guest.put(bytes);
        let iovecs = self.guest.iovecs(&[(at, bytes.len() as u64)]);
        let out = self.guest.space(4);
        self.call().sock_send(fd, iovecs, 1, 0, out)?;
        Ok(self.guest.u32(out))
    }

    fn kind(&self, fd: u32) -> u8 {
        let out = self.guest.space(24);
        self.call().fd_fdstat_get(fd, out).unwrap();
        self.guest.get(out, 1)[0]
    }
}

#[test]
fn what_is_no_socket_says_so() {
    let process = Process::new(WasiCtx::builder());
    let call = process.call();
    for (fd, expected) in [(1, Errno::NotSock), (9, Errno::BadF)] {
        assert_eq!(call.sock_accept(fd, 0, 0), Err(expected));
        assert_eq!(call.sock_recv(fd, 0, 0, 0, 0, 0), Err(expected));
        assert_eq!(call.sock_send(fd, 0, 0, 0, 0), Err(expected));
        assert_eq!(call.sock_shutdown(fd, 1), Err(expected));
    }
}

#[test]
fn a_stream_is_looked_at_gathered_and_shut() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let process = with_socket(theirs);
    assert_eq!(process.kind(0), 6);
    (&ours).write_all(b"he").unwrap();
    assert_eq!(process.receive(0, 8, PEEK).unwrap(), (b"he".to_vec(), false));
    assert_eq!(process.receive(0, 8, PEEK | WAITALL).unwrap(), (b"he".to_vec(), false));
    let all = released(|| process.receive(0, 5, WAITALL), || (&ours).write_all(b"llo!").unwrap());
    assert_eq!(all.unwrap(), (b"hello".to_vec(), false));
    assert_eq!(process.receive(0, 8, 0).unwrap(), (b"!".to_vec(), false));
    assert_eq!(process.receive(0, 8, 4), Err(Errno::Inval));
    assert_eq!(process.send(0, b"answer").unwrap(), 6);
    process.call().sock_shutdown(0, 2).unwrap();
    assert_eq!(process.send(0, b"x"), Err(Errno::Pipe));
    let mut answer = String::new();
    (&ours).read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "answer");
    (&ours).write_all(b"most").unwrap();
    ours.shutdown(Shutdown::Write).unwrap();
    assert_eq!(in_time(|| process.receive(0, 9, WAITALL)).unwrap(), (b"most".to_vec(), false), "there are no more");
    assert_eq!(process.call().sock_shutdown(0, 0), Err(Errno::Inval));
    assert_eq!(process.call().sock_accept(0, 0, 0), Err(Errno::Inval));
}

#[test]
fn a_stream_takes_more_than_it_holds() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let process = with_socket(theirs);
    let bytes: Vec<u8> = (0..120_000u32).map(|n| n.to_le_bytes()[0]).collect();
    in_time(|| {
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut received = vec![0; 10 * bytes.len()];
                (&ours).read_exact(&mut received).unwrap();
                received
            });
            for _ in 0..10 {
                assert_eq!(process.send(0, &bytes).unwrap(), 120_000);
            }
            assert_eq!(reader.join().unwrap(), bytes.repeat(10));
        });
    });
    process.call().fd_fdstat_set_flags(0, fdflags::NONBLOCK.into()).unwrap();
    assert_eq!(process.receive(0, 1, 0), Err(Errno::Again));
    assert_eq!(process.read(0, 1), Err(Errno::Again));
    in_time(|| while process.send(0, &bytes).is_ok() {});
    assert_eq!(process.send(0, &bytes), Err(Errno::Again));
}

#[test]
fn datagrams_stay_whole() {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let process = with_socket(theirs);
    assert_eq!(process.kind(0), 5);
    for message in ["one", "three", "", "seven"] {
        ours.send(message.as_bytes()).unwrap();
    }
    assert_eq!(process.receive(0, 9, WAITALL).unwrap(), (b"one".to_vec(), false));
    assert_eq!(process.receive(0, 4, PEEK).unwrap(), (b"thre".to_vec(), true));
    assert_eq!(process.receive(0, 4, 0).unwrap(), (b"thre".to_vec(), true));
    assert_eq!(process.receive(0, 4, 0).unwrap(), (Vec::new(), false));
    assert_eq!(process.read(0, 9).unwrap(), b"seven");
    // Longer than a write to a pipe may be at once.
    let long = vec![7; 20_000];
    assert_eq!(process.send(0, &long).unwrap(), 20_000);
    assert_eq!(process.write(0, b"w").unwrap(), 1);
    assert_eq!(process.send(0, b"").unwrap(), 0);
    assert_eq!(process.send(0, &[0; 70_000]), Err(Errno::MsgSize));
    let mut received = vec![0; 30_000];
    let lengths = [0; 3].map(|_| ours.recv(&mut received).unwrap());
    assert_eq!(lengths, [20_000, 1, 0]);
    assert_eq!(process.call().sock_accept(0, 0, 0), Err(Errno::NotSup));
}

#[test]
fn connections_are_accepted() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let process = with_socket(listener.try_clone().unwrap());
    let out = process.guest.space(4);
    let mut client = None;
    released(|| process.call().sock_accept(0, 0, out), || client = Some(UnixStream::connect(&path).unwrap())).unwrap();
    let fd = process.guest.u32(out);
    assert_eq!(fd, 3);
    client.unwrap().write_all(b"hello").unwrap();
    assert_eq!(process.receive(fd, 9, 0).unwrap(), (b"hello".to_vec(), false));
    assert_eq!(in_time(|| process.receive(fd, 9, 0)).unwrap(), (Vec::new(), false), "hung up");
    assert_eq!(process.call().sock_accept(0, 1, out), Err(Errno::Inval));
    assert_eq!(process.call().sock_shutdown(0, 3), Err(Errno::Inval));
    assert_eq!(process.read(0, 1), Err(Errno::Inval), "a listening socket has no bytes");
    assert_eq!(process.receive(0, 1, 0), Err(Errno::Inval));
    let _waiting = UnixStream::connect(&path).unwrap();
    let flags = u32::from(fdflags::NONBLOCK);
    process.call().sock_accept(0, flags, out).unwrap();
    assert_eq!(process.receive(process.guest.u32(out), 1, 0), Err(Errno::Again));
    process.call().fd_fdstat_set_flags(0, flags).unwrap();
    assert_eq!(process.call().sock_accept(0, 0, out), Err(Errno::Again));
}

#[test]
fn the_end_of_the_process_ends_socket_calls() {
    let folder = TempDir::new().unwrap();
    let (_ours, theirs) = UnixStream::pair().unwrap();
    let process = with_socket(theirs);
    assert_eq!(released(|| process.receive(0, 1, WAITALL), || process.guest.end()), Err(Errno::Intr));
    assert_eq!(
        in_time(|| loop {
            if let Err(error) = process.send(0, &[0; 100_000]) {
                break error;
            }
        }),
        Errno::Intr
    );
    let process = with_socket(UnixListener::bind(folder.path().join("socket")).unwrap());
    let accept = || process.call().sock_accept(0, 0, 0);
    assert_eq!(released(accept, || process.guest.end()), Err(Errno::Intr));
}
