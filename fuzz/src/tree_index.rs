//! The index of sealed trees.

use evener_format::index::{
    Block, BlockWriter, Claim, IndexError, Node, NodeWriter, Root, RootFile,
};

/// The first byte chooses between a block, a node, a root's file and a root. What is read is
/// written and read back the same, and a claim has only one form.
pub fn tree_index(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    match choice % 4 {
        0 => Block::parse(bytes).into_iter().for_each(|block| block_again(&block)),
        1 => Node::parse(bytes).into_iter().for_each(|node| node_again(&node)),
        2 => RootFile::parse(bytes, 10).into_iter().for_each(|file| file_again(&file, bytes)),
        _ => Root::parse(bytes).into_iter().for_each(|root| root_again(&root)),
    }
}

fn block_again(block: &Block) {
    let mut writer = BlockWriter::default();
    for (directory, entry) in &block.entries {
        assert_eq!(writer.push(directory, entry), Ok(true), "an entry that was read");
    }
    let again = Block::parse(&writer.finish(None)).expect("what it wrote");
    assert!(again.entries == block.entries, "it reads back as others");
}

fn node_again(node: &Node) {
    let mut writer = NodeWriter::default();
    let fits = node.references.iter().all(|reference| writer.push(reference));
    assert!(fits, "a reference that was read");
    assert!(Node::parse(&writer.finish(None)).as_ref() == Ok(node), "it reads back as another");
}

fn file_again(file: &RootFile<'_>, bytes: &[u8]) {
    let claim: &Claim = &file.claim;
    assert_eq!(claim.bytes(), file.claim_bytes, "it has another form");
    let chain = file.chain.as_ref().map(|(key, signature)| (key, signature));
    assert!(RootFile::write(&file.claim_bytes, chain, file.sealed) == bytes, "another form");
}

fn root_again(root: &Root) {
    let again = Root::write(&root.body.bytes(), &root.signatures, None);
    let again: Result<Root, IndexError> = again.and_then(|bytes| Root::parse(&bytes));
    let again = again.expect("what it wrote");
    assert!(again.body == root.body && again.signatures == root.signatures, "it is another");
}
