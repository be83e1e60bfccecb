//! Dispatcher: follows the changes of the registry once for all clients, and passes each change to the clients that asked
//! for it.
//!
//! Clients are indexed by the lists and by the skills of the URIs that they asked for, so that a change costs nothing for
//! the others. A change of a private layer is passed to clients of its owner alone. Changes within a few milliseconds are
//! debounced; those that a client has not been notified of yet wait in its inbox, whose size is bounded.

use std::{
    collections::HashMap,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::{Stream, StreamExt as _};
use parking_lot::Mutex;
use rmcp::model::ServerNotification;
use skills_core::{MemoryBudget, Owner, id::INDEX_ID};
use skills_registry::{NOTIFY_DEBOUNCE, OwnedChangeEvent, OwnedChangeEvents, SkillRegistry};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::change_set::{ChangeSet, Lists};
use crate::subscriptions::{MAX_SUBSCRIPTIONS, SubscribeError, SubscribedUris, UriIndex};

/// Most changed skills of a batch that are collected by id. A debounce ends before it has as many.
const MAX_BATCH: usize = 50_000;
/// Most changed skills that wait by id for a client.
const MAX_WAITING: usize = MAX_SUBSCRIPTIONS;

/// Number of a subscriber.
type Number = u64;
/// Set of clients.
type Inboxes = HashMap<Number, Arc<Inbox>>;

/// Dispatcher of the changes of a registry.
pub(crate) struct Dispatcher {
    feed: Arc<Feed>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl Dispatcher {
    /// Starts the dispatcher of a stream of changes. Needs a Tokio runtime.
    pub(crate) fn start(events: OwnedChangeEvents, skills: Arc<dyn SkillRegistry>) -> Self {
        let feed = Arc::new(Feed {
            source: Mutex::new(Source {
                events,
                waker: Waker::noop().clone(),
                batch: Batch::default(),
            }),
            subscribers: Arc::default(),
            skills_changed: Notify::new(),
        });
        // The catalog of a remote registry may take long, so it is read in a task of its own.
        let tasks = [
            tokio::spawn(run(Arc::clone(&feed))),
            tokio::spawn(refresh_catalog(skills, Arc::clone(&feed))),
        ];
        Self { feed, _tasks: tasks.map(AbortOnDropHandle::new) }
    }

    /// Subscribes a client to lists and URIs. Changes from now on wait in its inbox, and none from before.
    pub(crate) fn subscribe(
        &self,
        owner: Option<Owner>,
        lists: Lists,
        uris: UriIndex,
    ) -> Subscriber {
        let mut source = self.feed.source.lock();
        source.collect_ready();
        self.feed.deliver(&mut source);
        self.feed.subscribers.subscribe(owner, lists, uris)
    }
}

/// Changes on their way to the clients.
struct Feed {
    /// Its lock is held while changes are delivered and while a client subscribes, so that each change comes before or
    /// after a subscription. It is taken before that of the index.
    source: Mutex<Source>,
    subscribers: Arc<Subscribers>,
    /// Notified of changed skills if clients have asked for tools.
    skills_changed: Notify,
}

/// Changes that are not delivered yet.
struct Source {
    events: OwnedChangeEvents,
    /// Waker of the dispatcher's task.
    waker: Waker,
    batch: Batch,
}

impl Source {
    /// Moves the next change to the batch.
    fn poll_change(&mut self, context: &mut Context<'_>) -> Poll<Option<()>> {
        let next = self.events.poll_next_unpin(context);
        next.map(|event| event.map(|event| self.batch.add(event)))
    }

    /// Moves the changes that there are now to the batch. The dispatcher is woken by the next one.
    fn collect_ready(&mut self) {
        let waker = self.waker.clone();
        let collect = poll_fn(|context| {
            let is_ready = |polled: Poll<Option<()>>| matches!(polled, Poll::Ready(Some(())));
            for _ in 0..MAX_BATCH {
                if !is_ready(self.poll_change(context)) {
                    break;
                }
            }
            Poll::Ready(())
        });
        // The budget of the current task says nothing of whether there are changes.
        let collect = pin!(tokio::task::unconstrained(collect));
        let _ = collect.poll(&mut Context::from_waker(&waker));
    }
}

impl Feed {
    /// Puts the changes of the batch into the inboxes of the clients that asked for them.
    fn deliver(&self, source: &mut Source) {
        let batch = std::mem::take(&mut source.batch);
        for inbox in self.subscribers.deliver(&batch) {
            inbox.arrived.notify_one();
        }
        if batch.has_skills() && self.subscribers.want_tools() {
            self.skills_changed.notify_one();
        }
    }
}

/// Stream that moves changes to the batch, and yields one item for each.
struct Changes(Arc<Feed>);

impl Stream for Changes {
    type Item = ();

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<()>> {
        let mut source = self.0.source.lock();
        source.waker.clone_from(context.waker());
        source.poll_change(context)
    }
}

/// Passes changes on until they end.
async fn run(feed: Arc<Feed>) {
    let mut changes = Changes(Arc::clone(&feed));
    while changes.next().await.is_some() {
        let collected = NOTIFY_DEBOUNCE.collect(&mut changes, drop).await;
        feed.deliver(&mut feed.source.lock());
        if collected.is_none() {
            break;
        }
    }
    feed.subscribers.ended.cancel();
}

/// Makes a lazy registry read its catalog after changes: whether a changed skill is a tool is a change of its own.
async fn refresh_catalog(skills: Arc<dyn SkillRegistry>, feed: Arc<Feed>) {
    loop {
        feed.skills_changed.notified().await;
        if let Err(error) = skills.catalog().await {
            tracing::debug!(%error, "catalog unavailable; tool changes not detected");
        }
    }
}

/// Changes close to each other, by the owner who alone may see them.
#[derive(Debug, Default)]
struct Batch(HashMap<Option<Owner>, ChangeSet>);

impl Batch {
    fn add(&mut self, OwnedChangeEvent { owner, event }: OwnedChangeEvent) {
        self.0.entry(owner).or_default().add(event, MAX_BATCH);
    }

    fn has_skills(&self) -> bool {
        self.0.values().any(|changes| changes.lists.resources)
    }
}

/// Changes that wait for one client.
struct Inbox {
    owner: Option<Owner>,
    lists: Lists,
    content: Mutex<InboxContent>,
    /// Notified of the first change that waits.
    arrived: Notify,
}

#[derive(Default)]
struct InboxContent {
    uris: SubscribedUris,
    waiting: ChangeSet,
}

impl Inbox {
    fn may_see(&self, owner: Option<&Owner>) -> bool {
        owner.is_none() || self.owner.as_ref() == owner
    }

    /// Adds changes. Returns whether they are the first that wait.
    fn add(&self, add: impl FnOnce(&mut ChangeSet)) -> bool {
        let waiting = &mut self.content.lock().waiting;
        let was_empty = waiting.is_empty();
        add(waiting);
        was_empty && !waiting.is_empty()
    }
}

/// All clients, by what they asked for.
#[derive(Default)]
struct Subscribers {
    index: Mutex<Index>,
    /// Cancelled when there will be no more changes.
    ended: CancellationToken,
}

/// Index of clients. Its lock is taken before that of an inbox.
#[derive(Default)]
struct Index {
    next: Number,
    all: Inboxes,
    resources: Inboxes,
    prompts: Inboxes,
    tools: Inboxes,
    /// Clients with URIs, by the ids that those are indexed under.
    by_id: HashMap<Box<str>, Inboxes>,
}

impl Subscribers {
    fn subscribe(
        self: &Arc<Self>,
        owner: Option<Owner>,
        lists: Lists,
        uris: UriIndex,
    ) -> Subscriber {
        let mut index = self.index.lock();
        let number = index.next;
        index.next += 1;
        let ids: Vec<Box<str>> = uris.ids().map(Into::into).collect();
        let content = InboxContent { uris: uris.into(), waiting: ChangeSet::default() };
        let content = Mutex::new(content);
        let inbox = Arc::new(Inbox { owner, lists, content, arrived: Notify::new() });
        for inboxes in index.of_lists(lists) {
            inboxes.insert(number, Arc::clone(&inbox));
        }
        for id in ids {
            index.by_id.entry(id).or_default().insert(number, Arc::clone(&inbox));
        }
        index.all.insert(number, Arc::clone(&inbox));
        drop(index);
        Subscriber { number, inbox, subscribers: Arc::clone(self) }
    }

    fn want_tools(&self) -> bool {
        !self.index.lock().tools.is_empty()
    }

    /// Puts changes into the inboxes of the clients that asked for them, and returns those that were empty.
    fn deliver(&self, batch: &Batch) -> Vec<Arc<Inbox>> {
        let (index, mut arrived) = (self.index.lock(), Vec::new());
        for (owner, changes) in &batch.0 {
            index.deliver(owner.as_ref(), changes, &mut arrived);
        }
        arrived
    }
}

impl Index {
    /// Returns the sets of the clients that asked for lists.
    fn of_lists(&mut self, lists: Lists) -> impl Iterator<Item = &mut Inboxes> {
        let Self { resources, prompts, tools, .. } = self;
        let sets = [(lists.resources, resources), (lists.prompts, prompts), (lists.tools, tools)];
        sets.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, inboxes)| inboxes)
    }

    fn deliver(&self, owner: Option<&Owner>, changes: &ChangeSet, arrived: &mut Vec<Arc<Inbox>>) {
        let mut add = |inboxes: Option<&Inboxes>, change: &dyn Fn(&mut ChangeSet)| {
            for inbox in inboxes.into_iter().flat_map(HashMap::values) {
                if inbox.may_see(owner) && inbox.add(change) {
                    arrived.push(Arc::clone(inbox));
                }
            }
        };
        if changes.lists.resources {
            let change = |waiting: &mut ChangeSet| waiting.lists.resources = true;
            add(Some(&self.resources), &change);
            add(self.by_id.get(INDEX_ID), &change);
        }
        if changes.lists.prompts {
            add(Some(&self.prompts), &|waiting| waiting.lists.prompts = true);
        }
        if changes.lists.tools {
            add(Some(&self.tools), &|waiting| waiting.lists.tools = true);
        }
        if changes.any_skill {
            add(Some(&self.all), &ChangeSet::add_any_skill);
        }
        for change in changes.skills() {
            let inboxes = self.by_id.get(change.indexed_id());
            add(inboxes, &|waiting| waiting.add_skill(change, MAX_WAITING));
        }
    }

    fn remove(&mut self, number: Number, inbox: &Inbox) {
        for inboxes in self.of_lists(Lists::ALL) {
            inboxes.remove(&number);
        }
        self.all.remove(&number);
        for id in inbox.content.lock().uris.index().ids() {
            self.remove_id(number, id);
        }
    }

    fn remove_id(&mut self, number: Number, id: &str) {
        if let Some(inboxes) = self.by_id.get_mut(id) {
            inboxes.remove(&number);
            if inboxes.is_empty() {
                self.by_id.remove(id);
            }
        }
    }
}

/// A client's subscription, until it is dropped.
pub(crate) struct Subscriber {
    number: Number,
    inbox: Arc<Inbox>,
    subscribers: Arc<Subscribers>,
}

impl Subscriber {
    /// Adds a URI within the limits of one client, with memory for it.
    pub(crate) fn add(&self, uri: &str, memory: &MemoryBudget) -> Result<(), SubscribeError> {
        let Self { number, inbox, subscribers } = self;
        let mut index = subscribers.index.lock();
        inbox.content.lock().uris.add(uri, memory)?;
        for indexed in crate::subscriptions::ids(uri) {
            let inboxes = match index.by_id.get_mut(&*indexed.id) {
                Some(inboxes) => inboxes,
                None => index.by_id.entry(indexed.id.into()).or_default(),
            };
            inboxes.entry(*number).or_insert_with(|| Arc::clone(inbox));
        }
        Ok(())
    }

    pub(crate) fn remove(&self, uri: &str) {
        let mut index = self.subscribers.index.lock();
        let uris = &mut self.inbox.content.lock().uris;
        uris.remove(uri);
        for indexed in crate::subscriptions::ids(uri) {
            if !uris.index().has_id(&indexed.id) {
                index.remove_id(self.number, &indexed.id);
            }
        }
    }

    /// Waits until there are changes to notify the client of; `None` when there will be no more.
    pub(super) async fn wait(&self) -> Option<()> {
        let ended = &self.subscribers.ended;
        loop {
            // Read first: the last changes arrive before the end.
            let is_ended = ended.is_cancelled();
            if !self.inbox.content.lock().waiting.is_empty() {
                return Some(());
            }
            if is_ended {
                return None;
            }
            tokio::select! {
                () = self.inbox.arrived.notified() => {}
                () = ended.cancelled() => {}
            }
        }
    }

    /// Makes everything that the client asked for wait.
    pub(super) fn add_everything(&self) {
        self.inbox.content.lock().waiting = ChangeSet::everything();
    }

    /// Takes the notifications of the changes that wait.
    pub(super) fn take(&self) -> Vec<ServerNotification> {
        let InboxContent { uris, waiting } = &mut *self.inbox.content.lock();
        std::mem::take(waiting).notifications(self.inbox.lists, uris.index())
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.subscribers.index.lock().remove(self.number, &self.inbox);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    use futures_util::stream;
    use proptest::prelude::*;
    use skills_registry::{ChangeEvent, Registry, RegistryConfig};
    use skills_store::MemoryStore;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;

    const URIS: [&str; 9] = [
        "iii://a",
        "iii://a@3",
        "iii://a@latest",
        "iii://b",
        "iii://desk",
        "iii://desk/x/skill.md",
        "iii://skills",
        "skill://market/a/SKILL.md",
        "other://a",
    ];

    fn skill(id: &str) -> ChangeEvent {
        ChangeEvent::Skill(id.into())
    }

    fn dispatcher() -> (UnboundedSender<OwnedChangeEvent>, Dispatcher) {
        let (sender, receiver) = unbounded_channel();
        let events = stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await?, receiver))
        });
        let store = Arc::new(MemoryStore::new());
        let skills = Registry::open(store, None, RegistryConfig::default()).unwrap();
        (sender, Dispatcher::start(events.boxed(), skills))
    }

    /// Counter of the times that a task is woken.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn a_change_wakes_only_the_streams_that_asked_for_it() {
        let (sender, dispatcher) = dispatcher();
        let subscribe =
            |lists, uri: &str| dispatcher.subscribe(None, lists, [uri].into_iter().collect());
        let prompts = Lists { prompts: true, ..Lists::default() };
        let idle: Vec<_> = (0..1_000).map(|_| subscribe(prompts, "iii://unrelated")).collect();
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(Arc::clone(&wakes));
        let mut waiting: Vec<_> = idle.iter().map(|stream| Box::pin(stream.wait())).collect();
        for wait in &mut waiting {
            assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        let asking = subscribe(Lists::default(), "iii://s9999");
        for number in 0..10_000 {
            sender.send(skill(&format!("s{number}")).into()).unwrap();
        }
        asking.wait().await.unwrap();
        assert_eq!(asking.take().len(), 1);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0);

        sender.send(skill("unrelated").into()).unwrap();
        waiting[7].as_mut().await.unwrap();
        assert_eq!(idle.iter().filter(|stream| stream.take().len() == 1).count(), 1_000);
        sender.send(skill("unrelated").into()).unwrap();
        waiting[0].as_mut().await.unwrap();
        assert!(wakes.0.load(Ordering::SeqCst) <= 1_000, "once for each, however many changes");
    }

    #[tokio::test]
    async fn a_change_of_a_private_layer_wakes_clients_of_its_owner_alone() {
        let (sender, dispatcher) = dispatcher();
        let subscribe = |owner: Option<&str>| {
            let owner = owner.map(|owner| owner.parse().unwrap());
            dispatcher.subscribe(owner, Lists::ALL, ["iii://a"].into_iter().collect())
        };
        let (ann, bob, anyone) = (subscribe(Some("ann")), subscribe(Some("bob")), subscribe(None));
        let owner = Some("ann".parse().unwrap());
        sender.send(OwnedChangeEvent { owner, event: skill("a") }).unwrap();
        sender.send(ChangeEvent::Prompt("p".into()).into()).unwrap();
        for (name, subscriber, expected) in
            [("ann", ann, 3), ("bob", bob, 1), ("anyone", anyone, 1)]
        {
            subscriber.wait().await.unwrap();
            assert_eq!(subscriber.take().len(), expected, "{name}");
        }
    }

    #[tokio::test]
    async fn a_client_is_not_notified_of_changes_before_its_subscription() {
        let (sender, dispatcher) = dispatcher();
        let subscribe = || dispatcher.subscribe(None, Lists::ALL, UriIndex::default());
        let early = subscribe();
        // The dispatcher has the first change in its batch, and the second one is still in the stream.
        sender.send(skill("a").into()).unwrap();
        tokio::task::yield_now().await;
        sender.send(skill("b").into()).unwrap();
        let late = subscribe();
        assert!(!early.take().is_empty() && late.take().is_empty());
        sender.send(ChangeEvent::Prompt("p".into()).into()).unwrap();
        for subscriber in [early, late] {
            subscriber.wait().await.unwrap();
            assert_eq!(subscriber.take().len(), 1);
        }
    }

    #[tokio::test]
    async fn clients_hear_of_the_end_of_the_changes() {
        let (sender, dispatcher) = dispatcher();
        let subscriber = dispatcher.subscribe(None, Lists::ALL, UriIndex::default());
        sender.send(skill("a").into()).unwrap();
        drop(sender);
        assert_eq!(subscriber.wait().await, Some(()), "the last change is not lost");
        subscriber.take();
        assert_eq!(subscriber.wait().await, None);
    }

    #[test]
    fn changes_that_wait_for_a_client_are_bounded() {
        let subscribers = Arc::<Subscribers>::default();
        let subscriber =
            subscribers.subscribe(None, Lists::default(), ["iii://desk"].into_iter().collect());
        let mut batch = Batch::default();
        for number in 0..=MAX_WAITING {
            batch.add(skill(&format!("desk/{number}/skill.md")).into());
        }
        assert_eq!(subscribers.deliver(&batch).len(), 1);
        assert!(subscribers.deliver(&batch).is_empty(), "it was told already");
        let content = subscriber.inbox.content.lock();
        assert!(content.waiting.any_skill && content.waiting.skills().next().is_none());
    }

    /// Event by number, with the owner who may see it.
    fn event(number: usize, owner: usize) -> OwnedChangeEvent {
        let event = match number {
            0 => skill("a"),
            1 => skill("b"),
            2 => skill("desk/x/skill.md"),
            3 => skill("desk/y/skill.md"),
            4 => ChangeEvent::SkillVersions("a".into()),
            5 => ChangeEvent::SkillVersion { id: "a".into(), version: 3 },
            6 => ChangeEvent::Prompt("p".into()),
            7 => ChangeEvent::Tools,
            _ => ChangeEvent::Everything,
        };
        OwnedChangeEvent { owner: person(owner), event }
    }

    fn person(number: usize) -> Option<Owner> {
        ["ann", "bob"].get(number).map(|name| name.parse().unwrap())
    }

    fn texts(notifications: &[ServerNotification]) -> Vec<String> {
        let mut texts: Vec<_> =
            notifications.iter().map(|it| serde_json::to_string(it).unwrap()).collect();
        texts.sort();
        texts
    }

    proptest! {
        #[test]
        fn clients_get_what_they_would_get_if_they_followed_all_changes(
            clients in prop::collection::vec(
                (0..3_usize, any::<[bool; 3]>(), prop::collection::vec(0..URIS.len(), 0..4), any::<bool>()),
                1..6,
            ),
            batches in prop::collection::vec(prop::collection::vec((0..9_usize, 0..4_usize), 0..5), 1..4),
        ) {
            let (subscribers, memory) = (Arc::<Subscribers>::default(), MemoryBudget::default());
            let clients: Vec<_> = clients
                .into_iter()
                .map(|(owner, [resources, prompts, tools], uris, adds_later)| {
                    let lists = Lists { resources, prompts, tools };
                    let uris: Vec<_> = uris.into_iter().map(|at| URIS[at]).collect();
                    let first = if adds_later { &[] } else { &uris[..] };
                    let index = first.iter().copied().collect();
                    let subscriber = subscribers.subscribe(person(owner), lists, index);
                    uris.iter().for_each(|uri| subscriber.add(uri, &memory).unwrap());
                    subscriber.add("iii://b/gone", &memory).unwrap();
                    subscriber.remove("iii://b/gone");
                    (subscriber, person(owner), lists, uris)
                })
                .collect();
            for events in &batches {
                let mut batch = Batch::default();
                events.iter().for_each(|(number, owner)| batch.add(event(*number, *owner)));
                subscribers.deliver(&batch);
            }
            for (subscriber, owner, lists, uris) in &clients {
                let mut all = ChangeSet::default();
                for (number, of) in batches.iter().flatten() {
                    let event = event(*number, *of);
                    if event.owner.is_none() || event.owner == *owner {
                        all.add(event.event, MAX_BATCH);
                    }
                }
                let expected = all.notifications(*lists, &uris.iter().copied().collect());
                prop_assert_eq!(texts(&subscriber.take()), texts(&expected));
            }
            drop(clients);
            let index = subscribers.index.lock();
            prop_assert!(index.all.is_empty() && index.by_id.is_empty());
            let lists = [&index.resources, &index.prompts, &index.tools];
            prop_assert!(lists.iter().all(|inboxes| inboxes.is_empty()));
        }
    }
}
