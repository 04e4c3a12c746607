//! The unclaimed tasks, in their order, by size class.

use std::collections::VecDeque;

use crate::{Load, SizeClass};

/// The numbers of unclaimed tasks: the policy's view of the queue. Sums of jobs and bytes saturate:
/// three sparse files can have more bytes than a `u64` holds.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Number of tasks.
    pub tasks: usize,
    /// Number of their jobs.
    pub jobs: u64,
    /// Number of tasks fed so far, claimed or not.
    pub fed: u64,
    /// Number of tasks that several workers can do together.
    pub divisible: usize,
    /// True once the feed has ended.
    pub closed: bool,
    classes: [Counts; SizeClass::COUNT],
    /// One bit for each class with tasks.
    occupied: u64,
}

/// The numbers of unclaimed tasks, jobs and bytes of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of tasks.
    pub tasks: usize,
    /// Number of their jobs.
    pub jobs: u64,
    /// Number of their bytes; 0 for unknown sizes.
    pub bytes: u64,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting {
            tasks: 0,
            jobs: 0,
            fed: 0,
            divisible: 0,
            closed: false,
            classes: [Counts::default(); SizeClass::COUNT],
            occupied: 0,
        }
    }
}

impl Waiting {
    /// The numbers of a class.
    pub fn of(&self, class: SizeClass) -> Counts {
        self.classes[class.number()]
    }

    /// The classes with tasks, by growing size; unknown sizes come first.
    pub fn classes(&self) -> impl Iterator<Item = SizeClass> + use<> {
        let mut left = self.occupied;
        std::iter::from_fn(move || {
            let number = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (number < SizeClass::COUNT).then(|| SizeClass::from_number(number))
        })
    }

    /// Counts a task that a feed adds; for simulations and tests of policies.
    pub fn add(&mut self, load: Load) {
        let class = load.class();
        let counts = &mut self.classes[class.number()];
        counts.tasks += 1;
        counts.jobs = counts.jobs.saturating_add(load.jobs);
        counts.bytes = counts.bytes.saturating_add(load.bytes.unwrap_or(0));
        self.tasks += 1;
        self.jobs = self.jobs.saturating_add(load.jobs);
        self.divisible += usize::from(load.is_divisible);
        self.occupied |= 1 << class.number();
    }

    /// Counts a task that leaves.
    pub fn remove(&mut self, load: Load) {
        let class = load.class();
        let counts = &mut self.classes[class.number()];
        counts.tasks = counts.tasks.saturating_sub(1);
        counts.jobs = counts.jobs.saturating_sub(load.jobs);
        counts.bytes = counts.bytes.saturating_sub(load.bytes.unwrap_or(0));
        self.tasks = self.tasks.saturating_sub(1);
        self.jobs = self.jobs.saturating_sub(load.jobs);
        self.divisible = self.divisible.saturating_sub(usize::from(load.is_divisible));
        if counts.tasks == 0 {
            self.occupied &= !(1 << class.number());
        }
    }
}

/// The tasks themselves: a list for each size class, so that a policy can claim from one of them.
/// A place number gives the order across all lists.
#[derive(Debug)]
pub(crate) struct Backlog<T> {
    waiting: Waiting,
    /// A list for each class, as far as needed.
    lists: Vec<VecDeque<Entry<T>>>,
    /// The place of the next task at the head, before all other tasks.
    head: i64,
    /// The place of the next task at the end.
    end: i64,
}

#[derive(Debug)]
struct Entry<T> {
    place: i64,
    load: Load,
    task: T,
}

impl<T> Backlog<T> {
    pub(crate) fn new() -> Backlog<T> {
        Backlog { waiting: Waiting::default(), lists: Vec::new(), head: -1, end: 0 }
    }

    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    pub(crate) fn close(&mut self) {
        self.waiting.closed = true;
    }

    pub(crate) fn push_back(&mut self, task: T, load: Load) {
        let place = self.end;
        self.end += 1;
        self.waiting.fed += 1;
        self.list(load).push_back(Entry { place, load, task });
    }

    pub(crate) fn push_front(&mut self, task: T, load: Load) {
        let place = self.head;
        self.head -= 1;
        self.list(load).push_front(Entry { place, load, task });
    }

    /// The first task, of a class or of all.
    pub(crate) fn pop(&mut self, class: Option<SizeClass>) -> Option<(T, Load)> {
        let class = match class {
            Some(class) => class,
            None => self.first()?,
        };
        let Entry { load, task, .. } = self.lists.get_mut(class.number())?.pop_front()?;
        self.waiting.remove(load);
        Some((task, load))
    }

    /// All tasks, in order.
    pub(crate) fn into_tasks(mut self) -> Vec<T> {
        std::iter::from_fn(|| self.pop(None)).map(|(task, _)| task).collect()
    }

    /// The class of the first task of all.
    fn first(&self) -> Option<SizeClass> {
        let mut classes = self.waiting.classes();
        let only = classes.next()?;
        let place = |class: &SizeClass| self.lists[class.number()].front().map(|entry| entry.place);
        std::iter::once(only).chain(classes).min_by_key(place)
    }

    fn list(&mut self, load: Load) -> &mut VecDeque<Entry<T>> {
        self.waiting.add(load);
        let number = load.class().number();
        if self.lists.len() <= number {
            self.lists.resize_with(number + 1, VecDeque::new);
        }
        &mut self.lists[number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_bytes_than_a_number_holds_wait_and_leave() {
        let mut backlog = Backlog::new();
        for task in 0..3 {
            backlog.push_back(task, Load::job(i64::MAX as u64));
        }
        assert_eq!(backlog.waiting().of(SizeClass::of(i64::MAX as u64)).bytes, u64::MAX);
        assert_eq!(backlog.into_tasks(), [0, 1, 2]);
    }

    #[test]
    fn tasks_leave_in_order_or_by_class() {
        let mut backlog = Backlog::new();
        for (task, bytes) in [("a", 16), ("b", 4096), ("c", 20), ("d", 4096)] {
            backlog.push_back(task, Load::job(bytes));
        }
        backlog.push_front("first", Load::unknown(7));
        assert_eq!(
            (backlog.waiting().tasks, backlog.waiting().jobs, backlog.waiting().fed),
            (5, 11, 4)
        );
        assert_eq!(backlog.waiting().classes().count(), 3);
        let small = SizeClass::of(16);
        assert_eq!(backlog.waiting().of(small), Counts { tasks: 2, jobs: 2, bytes: 36 });
        assert_eq!(backlog.pop(None).unwrap().0, "first");
        assert_eq!(backlog.pop(Some(SizeClass::of(4096))).unwrap().0, "b");
        assert_eq!(backlog.pop(None).unwrap().0, "a");
        assert_eq!(backlog.pop(Some(SizeClass::UNKNOWN)), None);
        assert_eq!(backlog.into_tasks(), ["c", "d"]);
    }
}
