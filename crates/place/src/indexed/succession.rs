//! New roots, and who signs them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use evener_format::index::{Body, Claim, Purpose, Root, RootFile, SignerKeys, TreeId, TreeKeys};
use evener_keys::signing::{OwnKey, PublicKey};
use sha2::{Digest, Sha256};

use super::depot::{Created, Depot, refused};
use super::roots::{Generation, Pin, RootDigest, root_path};
use super::state::State;
use crate::FileError;

/// A key of the user's that signs.
#[derive(Clone)]
pub struct Signer {
    /// The public key.
    pub public: PublicKey,
    /// Signs a message: returns a binary SSHSIG in the namespace of sealed trees.
    pub sign: Sign,
}

/// Signs a message.
pub type Sign = Arc<dyn Fn(&[u8]) -> Result<Vec<u8>, FileError> + Send + Sync>;

/// The keys with which a machine signs: its own, and perhaps its user's.
pub(super) struct Signing {
    own: OwnKey,
    user: Option<Signer>,
}

impl Signing {
    /// The keys of this machine. Its own is made at first use; that of a tree that was moved stays.
    pub(super) fn of(
        state: Option<&State>,
        user: Option<&Signer>,
        tree: Option<TreeId>,
    ) -> Result<Signing, FileError> {
        let state = state.ok_or_else(|| {
            refused("a signed tree needs a directory for its state (XDG_STATE_HOME or HOME)")
        })?;
        let path = state.path("key")?;
        if !path.exists() {
            let earlier = tree.and_then(|tree| state.earlier_key(tree));
            let earlier = earlier.and_then(|earlier| OwnKey::load(&earlier).ok());
            let own = earlier.map_or_else(OwnKey::generate, Ok);
            match own.and_then(|key| key.store(&path)) {
                Ok(_) => {}
                // Another run has made it at the same time.
                Err(_) if path.exists() => {}
                Err(error) => return Err(refused(error.to_string())),
            }
        }
        let own = OwnKey::load(&path).map_err(|error| refused(error.to_string()))?;
        Ok(Signing { own, user: user.cloned() })
    }

    /// The same, to sign what these may sign.
    pub(super) fn among(self, signers: &[SignerKeys]) -> Result<Signing, FileError> {
        let public = self.public();
        match signers.is_empty() || signers.iter().any(|signer| signer.key == public.wire()) {
            true => Ok(self),
            false => {
                Err(refused(match signers.iter().find(|it| it.chain == self.own.chain_key()) {
                    Some(user) => format!(
                        "this machine signs the tree with another key, {}: give that one with --sign",
                        fingerprint(user)
                    ),
                    None => format!(
                        "{} may not sign this tree; a signer of the tree can admit it with `evener \
                     signers --add`. If the keys of all signers are lost, the tree gets no new \
                     generation: seal to a new directory; readers can keep this one",
                        public.fingerprint()
                    ),
                }))
            }
        }
    }

    pub(super) fn public(&self) -> PublicKey {
        self.user.as_ref().map_or_else(|| self.own.public(), |user| user.public.clone())
    }

    pub(super) fn keys(&self) -> SignerKeys {
        SignerKeys { key: self.public().wire().to_vec(), chain: self.own.chain_key() }
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, FileError> {
        match &self.user {
            Some(user) => (user.sign)(message),
            None => Ok(self.own.sign(message)),
        }
    }
}

fn fingerprint(signer: &SignerKeys) -> String {
    PublicKey::from_wire(&signer.key).map_or_else(|_| String::new(), |key| key.fingerprint())
}

/// A new root.
pub(super) struct NewRoot {
    pub(super) claim: Claim,
    pub(super) body: Body,
}

impl NewRoot {
    /// The root that follows a generation and has the same content. Files between the two are no
    /// roots.
    pub(super) fn after(before: &Generation, skipped: Vec<(u64, [u8; 32])>) -> NewRoot {
        let claim = Claim {
            number: before.claim.number + skipped.len() as u64 + 1,
            before: Some(before.digest.0),
            skipped,
            ..before.claim.clone()
        };
        NewRoot { claim, body: Body { time: now(), ..before.body.clone() } }
    }

    /// The bytes of its file, and what a machine keeps of it.
    pub(super) fn write(
        self,
        depot: &Depot<'_>,
        keys: &TreeKeys,
        signing: Option<&Signing>,
    ) -> Result<(Vec<u8>, Pin), FileError> {
        let NewRoot { mut claim, mut body } = self;
        claim.key = keys.commitment().id();
        // A machine that has lost its state has another key for the chain.
        if let Some(keys) = signing.map(Signing::keys) {
            let own = body.signers.iter_mut().find(|signer| signer.key == keys.key);
            own.into_iter().for_each(|own| *own = keys.clone());
        }
        claim.policy = body.policy();
        let claim_bytes = claim.bytes();
        body.claim = Sha256::digest(&claim_bytes).into();
        let body_bytes = body.bytes();
        let signatures = signing.map(|signing| signing.sign(&body_bytes)).transpose()?;
        let signatures: Vec<_> = signatures.into_iter().collect();
        let plain = Root::write(&body_bytes, &signatures, body.padding)
            .map_err(|error| refused(error.to_string()))?;
        let sealed = depot.seal(keys.recipe(Purpose::Root, claim.number)?, &plain)?;
        let chain = signing.map(|signing| {
            let signed = Claim::signed(&claim_bytes, &sealed);
            (signing.own.chain_key(), signing.own.sign_chain(&signed))
        });
        let chain = chain.as_ref().map(|(key, signature)| (key, signature));
        let bytes = RootFile::write(&claim_bytes, chain, &sealed);
        // Nobody could read what breaks the format's limits.
        RootFile::parse(&bytes, claim.number)
            .map_err(|it| refused(format!("generation {} is not made: {it}", claim.number)))?;
        let pin = Pin {
            tree: body.tree,
            number: claim.number,
            digest: RootDigest(Sha256::digest(&bytes).into()),
            signers: body.signers,
            revoked: body.revoked,
        };
        Ok((bytes, pin))
    }

    /// Writes the root, and has the state keep it.
    pub(super) fn publish(
        self,
        depot: &Depot<'_>,
        keys: &TreeKeys,
        signing: Option<&Signing>,
        state: Option<&State>,
    ) -> Result<Pin, FileError> {
        let before = self.claim.before;
        let (bytes, pin) = self.write(depot, keys, signing)?;
        let path = root_path(pin.number);
        if depot.create(&path, &bytes)? == Created::Taken {
            return Err(refused(format!(
                "another run has made generation {}; try again",
                pin.number
            )));
        }
        if let Some(state) = state {
            state.keep_same(&pin, before.map(RootDigest))?;
        }
        Ok(pin)
    }
}

/// The time in seconds since 1970.
pub(super) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
