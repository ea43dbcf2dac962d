//! The garbage-collected heap of one guest thread: a precise mark-and-sweep collector whose objects never move.
//!
//! Invariants: only the thread itself allocates, collects and reads here. An object is kept for as long as a root or another
//! object that is kept refers to it ([`roots`]); nothing is taken for a reference that is none. Memory of a new object is
//! zero. A collection that is given up because the process has ended changes nothing.
//!
//! In the order data moves: [`shape`] says what is in an object, [`blocks`] where objects lie, [`mark`] which of them live,
//! [`roots`] where that begins, [`object`] reads and writes them for the host.
//!
//! Cost: an allocation is a few instructions and the zeroing; a collection is linear in what lives, plus a look at a bit
//! a cell. It comes after as much has been allocated as lived after the last one, and at least [`PAUSE`]: so the heap
//! stays below about twice what lives, plus [`PAUSE`] and what is lost to rounding (a fifth at most).

mod blocks;
mod mark;
pub(crate) mod object;
pub(crate) mod roots;
pub(crate) mod shape;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Weak;

use spinwise_model::trap::TrapCode;

use self::blocks::Blocks;
use self::mark::Marker;
use self::roots::{Root, Roots};
use self::shape::Shape;
use crate::tag::Tag;
use crate::thread::Running;

/// Bytes that are allocated at least from one collection to the next.
const PAUSE: usize = 4 << 20;

/// Bytes that a heap may take where nobody says otherwise: as many as a 32-bit memory.
pub(crate) const LIMIT: usize = 4 << 30;

/// What part of the limit is little to have been allocated between two collections.
const LITTLE: usize = 64;

/// How many collections in a row may bring no more than that before the heap counts as full.
const FUTILE: u32 = 8;

/// How a heap behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    /// Bytes that it may take from the system.
    pub(crate) limit: usize,
    /// Whether each allocation collects first.
    pub(crate) always: bool,
}

/// The objects of one thread, and what keeps them.
pub(crate) struct Heap {
    settings: Settings,
    blocks: RefCell<Blocks>,
    /// Bytes allocated since the last collection.
    allocated: Cell<usize>,
    /// At how many of them the next one is due.
    due: Cell<usize>,
    collections: Cell<u64>,
    /// Collections in a row for want of room that brought little.
    futile: Cell<u32>,
    /// The shapes of all objects, by the number of their type.
    shapes: RefCell<Vec<Option<&'static Shape>>>,
    /// What the host holds.
    handles: RefCell<Handles>,
    /// Tags of exceptions that no instance may keep.
    tags: RefCell<Vec<Tag>>,
    /// Tables and globals that no instance defines, or that instances share.
    watched: RefCell<Vec<Weak<dyn Roots + Send + Sync>>>,
}

#[derive(Default)]
struct Handles {
    live: Vec<Weak<Root>>,
    /// How many there may be before those that are gone are forgotten.
    room: usize,
}

/// Whether an allocation may collect: not while there are references that [`roots`] does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Collect {
    /// It may: every reference is a root, or compiled code's and named in a stack map.
    Allowed,
    /// It may not.
    Forbidden,
}

impl Heap {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            blocks: RefCell::default(),
            allocated: Cell::new(0),
            due: Cell::new(PAUSE),
            collections: Cell::new(0),
            futile: Cell::new(0),
            shapes: RefCell::default(),
            handles: RefCell::default(),
            tags: RefCell::default(),
            watched: RefCell::default(),
        }
    }

    /// Memory for an object of a type, zeroed but for its first word. `bytes` is its size.
    ///
    /// # Errors
    /// [`TrapCode::OutOfMemory`] at the limit; [`TrapCode::Interrupted`] where the process has ended meanwhile.
    pub(crate) fn allocate(
        running: Running<'_>,
        shape: &'static Shape,
        bytes: usize,
        collect: Collect,
    ) -> Result<NonNull<u8>, TrapCode> {
        let heap = &running.own().heap;
        heap.learn(shape);
        let object = heap.take(running, bytes, collect)?;
        object::set_word(object, shape.word);
        Ok(object)
    }

    /// Memory for an exception: as [`Heap::allocate`].
    ///
    /// # Errors
    /// As [`Heap::allocate`].
    pub(crate) fn allocate_exception(
        running: Running<'_>,
        bytes: usize,
        collect: Collect,
    ) -> Result<NonNull<u8>, TrapCode> {
        running.own().heap.take(running, bytes, collect)
    }

    /// Keeps a tag of the host's for as long as there may be exceptions of it.
    pub(crate) fn keep(&self, tag: &Tag) {
        let mut tags = self.tags.borrow_mut();
        if !tags.iter().any(|known| known.same(tag)) {
            tags.push(tag.clone());
        }
    }

    /// Memory for an object, zeroed.
    fn take(&self, running: Running<'_>, bytes: usize, collect: Collect) -> Result<NonNull<u8>, TrapCode> {
        let allowed = collect == Collect::Allowed;
        if bytes > self.settings.limit {
            return Err(TrapCode::OutOfMemory);
        }
        let fresh = allowed && (self.settings.always || self.allocated.get() >= self.due.get());
        if fresh {
            self.collect(running)?;
        }
        let object = self.blocks.borrow_mut().take(bytes, self.settings.limit);
        let object = match object {
            Some(object) => Some(object),
            None if allowed && !fresh && self.is_worth_it() => {
                self.collect(running)?;
                self.blocks.borrow_mut().take(bytes, self.settings.limit)
            }
            None => None,
        };
        let Some(object) = object else {
            self.futile.set(0);
            return Err(TrapCode::OutOfMemory);
        };
        self.allocated.set(self.allocated.get().saturating_add(bytes));
        Ok(object)
    }

    /// Whether to collect because there is no room: not for ever, if each time brings next to nothing.
    fn is_worth_it(&self) -> bool {
        let little = self.allocated.get() < self.settings.limit / LITTLE;
        self.futile.set(if little { self.futile.get() + 1 } else { 0 });
        self.futile.get() <= FUTILE
    }

    /// Makes a shape known to whoever marks.
    fn learn(&self, shape: &'static Shape) {
        let mut shapes = self.shapes.borrow_mut();
        let at = shape.id.index();
        if at >= shapes.len() {
            shapes.resize(at + 1, None);
        }
        shapes[at] = Some(shape);
    }

    /// The shape of an object's type.
    ///
    /// # Panics
    /// If no object of that type was ever made here: always a bug.
    pub(crate) fn shape(&self, word: u32) -> &'static Shape {
        self.shapes.borrow()[shape::id_of(word).index()].expect("objects are made of known shapes")
    }

    /// Frees all objects that nothing keeps.
    ///
    /// # Errors
    /// [`TrapCode::Interrupted`] where the process has ended; then all objects are still there.
    pub(crate) fn collect(&self, running: Running<'_>) -> Result<(), TrapCode> {
        let mut blocks = self.blocks.borrow_mut();
        let shapes = self.shapes.borrow();
        blocks.clear_marks();
        let mut marker = Marker::new(&shapes);
        roots::each(running, &mut |reference| marker.reach(reference));
        marker.finish(running)?;
        let live = blocks.sweep(PAUSE, self.settings.always);
        self.allocated.set(0);
        self.due.set(live.max(PAUSE));
        self.collections.set(self.collections.get() + 1);
        Ok(())
    }

    /// How many collections there were.
    pub(crate) fn collections(&self) -> u64 {
        self.collections.get()
    }

    /// Bytes that it has taken from the system.
    pub(crate) fn taken(&self) -> usize {
        self.blocks.borrow().taken()
    }

    /// Keeps what the host holds.
    fn hold(&self, root: Weak<Root>) {
        let mut handles = self.handles.borrow_mut();
        if handles.live.len() >= handles.room {
            handles.live.retain(|root| root.strong_count() > 0);
            handles.room = (2 * handles.live.len()).max(64);
        }
        handles.live.push(root);
    }

    /// Looks into a table or a global at each collection, for as long as it lives.
    pub(crate) fn watch(&self, roots: Weak<dyn Roots + Send + Sync>) {
        self.watched.borrow_mut().push(roots);
    }

    /// Frees everything. No code of the thread runs any more.
    pub(crate) fn clear(&self) {
        self.blocks.take();
        self.watched.take();
        self.handles.take();
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("taken", &self.taken()).field("collections", &self.collections()).finish()
    }
}
