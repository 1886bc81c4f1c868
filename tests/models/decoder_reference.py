"""A decoder as ONNX Runtime runs it: what the tests of generated decoders, in C++ and through Python, compare with."""

import numpy as np


class Reference:
    """ONNX Runtime on the file, its caches kept from step to step; `width`: of a head."""

    def __init__(self, session, width):
        self.session, self.length = session, 0
        self.names = [o.name for o in session.get_outputs()]
        self.past = {i.name: np.zeros([1, i.shape[1], 0, width], np.float32) for i in session.get_inputs()
                     if i.name.startswith("past")}  # fmt: skip

    def run(self, tokens):
        """Logits [tokens, vocabulary]."""
        self.length += len(tokens)
        given = {"input_ids": np.array([tokens]), "attention_mask": np.ones([1, self.length], np.int64)}
        found = dict(zip(self.names, self.session.run(self.names, given | self.past)))
        self.past = {name: found[name.replace("past_key_values", "present")] for name in self.past}
        return found["logits"][0]

    def greedy(self, logits, count):
        """The `count` likeliest tokens from a row of logits on, each appended."""
        tokens = []
        for _ in range(count):
            tokens.append(int(logits.argmax()))
            logits = self.run(tokens[-1:])[-1]
        return tokens
