//! `poll_oneoff`: waits for the first of several clocks and descriptors.
//!
//! Regular files, and streams in memory, are always ready. A subscription that cannot be served is an event with its
//! error, and ends the wait as any event does. The guest's lists are checked before anything waits.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::PollFlags;

use super::abi::{self, EVENT_SIZE, Event, Interest, Rights, SUBSCRIPTION_SIZE};
use super::clocks::{MONOTONIC, REALTIME, now};
use super::context::Call;
use super::descriptor::{Descriptor, Object};
use super::errno::{Errno, Result};
use super::guest::{GuestMemoryExt, Readiness, offset};
use crate::number::to_usize;

/// Subscriptions that one call may have; more is [`Errno::Inval`].
const MAX_SUBSCRIPTIONS: u64 = 1 << 14;

/// How long to sleep towards a time of day before looking again: that clock can be set.
const REALTIME_SLICE: Duration = Duration::from_secs(1);

/// What a subscription waits for.
enum Awaited {
    /// `clock` to reach `deadline`, in ns.
    Time { clock: u32, deadline: u64 },
    /// The host to call a stream ready.
    Stream { descriptor: Arc<Descriptor>, readiness: PollFlags },
    /// Nothing: the event is there.
    Nothing(Result<u64>),
}

/// A subscription.
struct Subscription {
    user_data: u64,
    kind: u8,
    awaited: Awaited,
}

impl Call<'_> {
    /// `poll_oneoff`
    pub(super) fn poll_oneoff(&self, subscriptions: u64, events: u64, count: u64, stored: u64) -> Result<()> {
        if count == 0 || count > MAX_SUBSCRIPTIONS {
            return Err(Errno::Inval);
        }
        self.guest.check(subscriptions, count * u64::from(SUBSCRIPTION_SIZE))?;
        self.guest.check(events, count * u64::from(EVENT_SIZE))?;
        self.guest.check(stored, self.word())?;
        let mut list = Vec::with_capacity(to_usize(count));
        for index in 0..count {
            let at = offset(subscriptions, index * u64::from(SUBSCRIPTION_SIZE))?;
            let (user_data, interest) = abi::subscription(&self.guest.load(at)?);
            list.push(self.subscribe(user_data, interest)?);
        }
        let ready = self.first_events(&list)?;
        for (index, event) in (0u64..).zip(&ready) {
            self.guest.write(offset(events, index * u64::from(EVENT_SIZE))?, &event.to_bytes())?;
        }
        self.store_size(stored, ready.len() as u64)
    }

    fn subscribe(&self, user_data: u64, interest: Interest) -> Result<Subscription> {
        let (kind, awaited) = match interest {
            Interest::Clock { id, timeout, absolute } => (0, time(id, timeout, absolute)?),
            Interest::Read(fd) => (1, self.readiness(fd, Rights::FD_READ, PollFlags::IN)),
            Interest::Write(fd) => (2, self.readiness(fd, Rights::FD_WRITE, PollFlags::OUT)),
            Interest::Unknown => return Err(Errno::Inval),
        };
        Ok(Subscription { user_data, kind, awaited })
    }

    fn readiness(&self, fd: u32, access: Rights, readiness: PollFlags) -> Awaited {
        let descriptor = match self.descriptor(fd) {
            Ok(descriptor) => descriptor,
            Err(error) => return Awaited::Nothing(Err(error)),
        };
        if let Err(error) = descriptor.require(access).and_then(|()| descriptor.require(Rights::POLL_FD_READWRITE)) {
            return Awaited::Nothing(Err(error));
        }
        if descriptor.is_stream() {
            return Awaited::Stream { descriptor, readiness };
        }
        Awaited::Nothing(if readiness == PollFlags::IN { unread(&descriptor) } else { Ok(1) })
    }

    /// Waits until there is at least one event, and gives all that there are then.
    fn first_events(&self, list: &[Subscription]) -> Result<Vec<Event>> {
        let mut polled = Vec::new();
        for subscription in list {
            if let Awaited::Stream { descriptor, readiness } = &subscription.awaited
                && let Object::Host(file) = &descriptor.object
            {
                polled.push(Readiness::new(file.as_fd(), *readiness));
            }
        }
        loop {
            let timeout = shortest_wait(list)?;
            self.guest.wait(&mut polled, timeout)?;
            let ready = happened(list, &polled)?;
            if !ready.is_empty() {
                return Ok(ready);
            }
        }
    }
}

/// What a clock subscription waits for.
fn time(id: u32, timeout: u64, absolute: bool) -> Result<Awaited> {
    Ok(match id {
        REALTIME | MONOTONIC if absolute => Awaited::Time { clock: id, deadline: timeout },
        REALTIME | MONOTONIC => Awaited::Time { clock: MONOTONIC, deadline: now(MONOTONIC)?.saturating_add(timeout) },
        2 | 3 => Awaited::Nothing(Err(Errno::NotSup)),
        _ => Awaited::Nothing(Err(Errno::Inval)),
    })
}

/// How long nothing can happen but on a stream; `None`: for ever.
fn shortest_wait(list: &[Subscription]) -> Result<Option<Duration>> {
    let mut shortest = None;
    for subscription in list {
        let wait = match subscription.awaited {
            Awaited::Nothing(_) => Duration::ZERO,
            Awaited::Stream { .. } => continue,
            Awaited::Time { clock, deadline } => {
                let wait = Duration::from_nanos(deadline.saturating_sub(now(clock)?));
                if clock == REALTIME { wait.min(REALTIME_SLICE) } else { wait }
            }
        };
        shortest = Some(shortest.map_or(wait, |shortest: Duration| shortest.min(wait)));
    }
    Ok(shortest)
}

/// The events that are there. `polled` has an entry for each stream, in the list's order.
fn happened(list: &[Subscription], polled: &[Readiness<'_>]) -> Result<Vec<Event>> {
    let mut polled = polled.iter();
    let mut events = Vec::new();
    for Subscription { user_data, kind, awaited } in list {
        let (outcome, hangup) = match awaited {
            Awaited::Nothing(outcome) => (*outcome, false),
            Awaited::Time { clock, deadline } if now(*clock)? >= *deadline => (Ok(0), false),
            Awaited::Time { .. } => continue,
            Awaited::Stream { descriptor, readiness } => {
                let found = polled.next().map_or(PollFlags::empty(), |polled| polled.found);
                if found.is_empty() {
                    continue;
                }
                let bytes = if *readiness == PollFlags::IN { unread(descriptor) } else { Ok(1) };
                (bytes, found.contains(PollFlags::HUP))
            }
        };
        let (errno, bytes) = match outcome {
            Ok(bytes) => (0, bytes),
            Err(error) => (error.code(), 0),
        };
        events.push(Event { user_data: *user_data, errno, kind: *kind, bytes, hangup });
    }
    Ok(events)
}

/// Bytes that can be read now, as far as the host tells.
fn unread(descriptor: &Descriptor) -> Result<u64> {
    match &descriptor.object {
        Object::Host(file) if descriptor.is_stream() => Ok(rustix::io::ioctl_fionread(file).unwrap_or(0)),
        Object::Host(file) => {
            let size = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
            Ok(size.saturating_sub(rustix::fs::tell(file)?))
        }
        Object::Input(bytes) => {
            let bytes = bytes.lock();
            let length = u64::try_from(bytes.get_ref().len()).map_err(|_| Errno::Overflow)?;
            Ok(length.saturating_sub(bytes.position()))
        }
        Object::Output(_) | Object::Null => Ok(0),
    }
}
