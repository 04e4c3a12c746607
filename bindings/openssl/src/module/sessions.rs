//! A module's sessions: at most one for each context, and a limited number in all.

/// A table of sessions.
pub(super) struct Sessions<S> {
    entries: Vec<Entry<S>>,
    /// The most sessions, including those that are being closed.
    most: usize,
    /// The number of sessions to be closed: they have left the table, but still exist.
    closing: usize,
    /// The most sessions at work at once. Meanwhile the CPU takes other text.
    depth: usize,
    /// The number of requests for a session.
    clock: u64,
}

struct Entry<S> {
    /// The context.
    owner: u64,
    /// The clock at its last request.
    used: u64,
    state: State<S>,
}

enum State<S> {
    Opening,
    Idle(S),
    Busy,
    /// No session could be opened.
    Refused,
}

/// The answer to a context that asks for its session.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn<S> {
    /// The caller must give it back.
    Session(S),
    /// There is room: the caller must have a session opened and given, after closing this one of
    /// another context.
    Open(Option<S>),
    /// No session now.
    None,
}

impl<S> Sessions<S> {
    pub(super) fn new(most: usize, depth: usize) -> Sessions<S> {
        Sessions { entries: Vec::with_capacity(most), most, closing: 0, depth, clock: 0 }
    }

    /// Sets the most sessions at work at once.
    pub(super) fn set_depth(&mut self, depth: usize) {
        self.depth = depth;
    }

    /// Answers a context that asks for its session.
    pub(super) fn take(&mut self, owner: u64) -> Turn<S> {
        self.clock += 1;
        let busy = self.entries.iter().filter(|entry| matches!(entry.state, State::Busy)).count();
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.owner == owner) {
            entry.used = self.clock;
            if busy >= self.depth {
                return Turn::None;
            }
            return match std::mem::replace(&mut entry.state, State::Busy) {
                State::Idle(session) => Turn::Session(session),
                other => {
                    entry.state = other;
                    Turn::None
                }
            };
        }
        let mut closed = None;
        if self.entries.len() + self.closing >= self.most {
            // One closes at a time, so that there are never more than `most`.
            if self.closing > 0 {
                return Turn::None;
            }
            let Some(at) = self.least_recently_used() else { return Turn::None };
            let state = self.entries.swap_remove(at).state;
            closed = self.retire(state);
        }
        self.entries.push(Entry { owner, used: self.clock, state: State::Opening });
        Turn::Open(closed)
    }

    /// The entry that makes room: the least recently used one, if the others were requested often
    /// since. Otherwise more contexts than there is room for would take each other's sessions.
    fn least_recently_used(&self) -> Option<usize> {
        let patience = (self.most as u64).saturating_mul(PATIENCE);
        let is_free = |state: &State<S>| matches!(state, State::Idle(_) | State::Refused);
        let free = self.entries.iter().enumerate().filter(|(_, entry)| is_free(&entry.state));
        let (at, entry) = free.min_by_key(|(_, entry)| entry.used)?;
        (self.clock - entry.used > patience).then_some(at)
    }

    /// The session of a removed entry, if it has one. It counts as one to be closed.
    fn retire(&mut self, state: State<S>) -> Option<S> {
        let State::Idle(session) = state else { return None };
        self.closing += 1;
        Some(session)
    }

    /// Notes that a session has been closed.
    pub(super) fn closed(&mut self) {
        self.closing = self.closing.saturating_sub(1);
    }

    /// Returns whether a context still waits for its session to be opened.
    pub(super) fn awaits(&self, owner: u64) -> bool {
        let is_it =
            |entry: &Entry<S>| entry.owner == owner && matches!(entry.state, State::Opening);
        self.entries.iter().any(is_it)
    }

    /// Gives a session back, or a new one; `None` if none could be opened. The caller must close a
    /// session that this returns, since its context is gone.
    pub(super) fn give(&mut self, owner: u64, session: Option<S>) -> Option<S> {
        match self.entries.iter_mut().find(|entry| entry.owner == owner) {
            Some(entry) => {
                entry.state = session.map_or(State::Refused, State::Idle);
                None
            }
            None => session.and_then(|session| self.retire(State::Idle(session))),
        }
    }

    /// Forgets a context. Returns its session, if it has one, to be closed.
    pub(super) fn forget(&mut self, owner: u64) -> Option<S> {
        let at = self.entries.iter().position(|entry| entry.owner == owner)?;
        let state = self.entries.swap_remove(at).state;
        self.retire(state)
    }

    /// Forgets all contexts. Returns their sessions, to be closed.
    pub(super) fn clear(&mut self) -> Vec<S> {
        let entries = std::mem::take(&mut self.entries);
        entries.into_iter().filter_map(|entry| self.retire(entry.state)).collect()
    }
}

/// The requests, for each possible session, before an unused entry makes room: some records each.
const PATIENCE: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens a context's session, which has the context's number.
    fn open(sessions: &mut Sessions<u64>, owner: u64) {
        assert_eq!(sessions.take(owner), Turn::Open(None));
        assert_eq!(sessions.take(owner), Turn::None);
        assert_eq!(sessions.give(owner, Some(owner)), None);
    }

    fn use_once(sessions: &mut Sessions<u64>, owner: u64) {
        assert_eq!(sessions.take(owner), Turn::Session(owner));
        assert_eq!(sessions.give(owner, Some(owner)), None);
    }

    #[test]
    fn each_context_has_its_own_session() {
        let mut sessions = Sessions::new(4, 2);
        open(&mut sessions, 7);
        open(&mut sessions, 8);
        use_once(&mut sessions, 7);
        use_once(&mut sessions, 8);
        assert_eq!(sessions.forget(7), Some(7));
        assert_eq!(sessions.forget(7), None);
        assert_eq!(sessions.take(7), Turn::Open(None));
    }

    #[test]
    fn what_is_being_closed_takes_room() {
        let mut sessions = Sessions::new(2, 2);
        open(&mut sessions, 1);
        open(&mut sessions, 2);
        assert_eq!(sessions.forget(1), Some(1));
        assert_eq!(sessions.take(3), Turn::None);
        sessions.closed();
        assert_eq!(sessions.take(3), Turn::Open(None));
        assert!(sessions.awaits(3));
        sessions.forget(3);
        assert!(!sessions.awaits(3));
        // It came too late.
        assert_eq!(sessions.give(3, Some(3)), Some(3));
        assert_eq!(sessions.take(4), Turn::None);
    }

    #[test]
    fn so_many_are_at_work_at_once() {
        let mut sessions = Sessions::new(4, 2);
        (1..=3).for_each(|owner| open(&mut sessions, owner));
        assert_eq!(sessions.take(1), Turn::Session(1));
        assert_eq!(sessions.take(2), Turn::Session(2));
        assert_eq!(sessions.take(3), Turn::None);
        sessions.give(1, Some(1));
        assert_eq!(sessions.take(3), Turn::Session(3));
    }

    #[test]
    fn a_session_makes_room_when_others_were_used_for_long() {
        let mut sessions = Sessions::new(2, 2);
        open(&mut sessions, 1);
        open(&mut sessions, 2);
        for _ in 0..2 * PATIENCE - 3 {
            use_once(&mut sessions, 2);
        }
        assert_eq!(sessions.take(3), Turn::None);
        use_once(&mut sessions, 2);
        assert_eq!(sessions.take(3), Turn::Open(Some(1)));
        // It is gone, and its context starts again.
        assert_eq!(sessions.take(1), Turn::None);
        assert_eq!(sessions.forget(1), None);
    }

    #[test]
    fn what_is_at_work_or_opening_never_makes_room() {
        let mut sessions = Sessions::new(2, 3);
        open(&mut sessions, 1);
        assert_eq!(sessions.take(1), Turn::Session(1));
        assert_eq!(sessions.take(2), Turn::Open(None));
        for _ in 0..100 {
            assert_eq!(sessions.take(3), Turn::None);
        }
    }

    #[test]
    fn a_context_without_luck_asks_again_much_later() {
        let mut sessions = Sessions::<u64>::new(1, 1);
        assert_eq!(sessions.take(1), Turn::Open(None));
        sessions.give(1, None);
        assert_eq!(sessions.take(1), Turn::None);
        for _ in 0..PATIENCE {
            assert_eq!(sessions.take(2), Turn::None);
        }
        assert_eq!(sessions.take(2), Turn::Open(None));
    }

    #[test]
    fn a_session_whose_context_has_gone_comes_back() {
        let mut sessions = Sessions::new(2, 2);
        assert_eq!(sessions.take(1), Turn::Open(None));
        assert_eq!(sessions.forget(1), None);
        assert_eq!(sessions.give(1, Some(1)), Some(1));
        sessions.closed();
        open(&mut sessions, 2);
        open(&mut sessions, 3);
        assert_eq!(sessions.take(3), Turn::Session(3));
        assert_eq!(sessions.clear(), [2]);
        assert_eq!(sessions.give(3, Some(3)), Some(3));
    }
}
