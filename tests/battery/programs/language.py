"""transformers' models, from configurations built here; recurrent networks; what goes with sequences."""

import torch
import transformers
from training import program, train

SMALL = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 500}


def tokens(batch=2, length=64, vocabulary=500):
    return torch.randint(1, vocabulary, (batch, length), device="cuda")


def causal(model):
    ids = tokens()
    return model(ids, labels=ids).loss


@program
def transformers_gpt2(precision):
    configuration = transformers.GPT2Config(n_embd=128, n_layer=2, n_head=4, vocab_size=500)
    train(transformers.GPT2LMHeadModel(configuration), causal, precision)


@program
def transformers_llama_checkpointing(precision):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=2, **SMALL))
    model.gradient_checkpointing_enable()
    train(model, causal, precision)


@program
def transformers_llama_all_16_bit(precision):
    """Parameters of the precision itself, without autocast."""
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)).to(precision.dtype).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(2):
        causal(model).backward()
        optimizer.step()
        optimizer.zero_grad()


@program
def transformers_bert_eager_attention(precision):
    model = transformers.BertForMaskedLM(transformers.BertConfig(attn_implementation="eager", **SMALL))
    mask = lambda: torch.ones(2, 64, dtype=torch.long, device="cuda")
    train(model, lambda m: m(tokens(), attention_mask=mask(), labels=tokens()).loss, precision)


@program
def transformers_t5(precision):
    configuration = transformers.T5Config(d_model=128, d_ff=256, num_layers=2, num_heads=4, vocab_size=500, d_kv=32)
    configuration.decoder_start_token_id = 0
    train(transformers.T5ForConditionalGeneration(configuration), lambda m: m(input_ids=tokens(), labels=tokens()).loss, precision)


@program
def transformers_mixture_of_experts(precision):
    configuration = transformers.MixtralConfig(num_local_experts=4, num_key_value_heads=2, **SMALL)
    train(transformers.MixtralForCausalLM(configuration), causal, precision)


@program
def transformers_wav2vec2_ctc(precision):
    configuration = transformers.Wav2Vec2Config(
        conv_dim=(32,) * 7, mask_time_prob=0.0, layerdrop=0.0, **{**SMALL, "vocab_size": 32}
    )
    model = transformers.Wav2Vec2ForCTC(configuration)
    sound = lambda: torch.randn(2, 16000, device="cuda")
    # From the host, as a data set's are: how long each is, is then known, and agrees with how many there are.
    labels = lambda: torch.randint(1, 32, (2, 10)).cuda()
    train(model, lambda m: m(sound(), labels=labels()).loss, precision)


class Recurrent(torch.nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.net = kind(64, 128, num_layers=2, batch_first=True, **options)
        self.head = torch.nn.LazyLinear(10)

    def forward(self, sequence):
        return self.head(self.net(sequence)[0])


def recur(kind, precision, **options):
    model = Recurrent(kind, **options).cuda()
    sequence = lambda: torch.randn(8, 32, 64, device="cuda")
    model(sequence())
    train(model, lambda m: m(sequence()).float().square().mean(), precision)


@program
def lstm_bidirectional_dropout(precision):
    recur(torch.nn.LSTM, precision, bidirectional=True, dropout=0.1)


@program
def lstm_projected(precision):
    recur(torch.nn.LSTM, precision, proj_size=32)


@program
def gru(precision):
    recur(torch.nn.GRU, precision)


@program
def rnn_relu(precision):
    recur(torch.nn.RNN, precision, nonlinearity="relu")


@program
def lstm_packed_sequences(precision):
    net = torch.nn.LSTM(16, 32, batch_first=True)
    lengths = torch.tensor([9, 7, 4])

    def look(m):
        packed = torch.nn.utils.rnn.pack_padded_sequence(torch.randn(3, 9, 16, device="cuda"), lengths, batch_first=True)
        return torch.nn.utils.rnn.pad_packed_sequence(m(packed)[0])[0].float().square().mean()

    train(net, look, precision)


@program
def ctc_loss(precision):
    lengths = torch.full((4,), 8)

    def look(m):
        scores = m(torch.randn(32, 4, 16, device="cuda")).float().log_softmax(2)
        target = torch.randint(1, 20, (4 * 8,), dtype=torch.int32, device="cuda")
        return torch.nn.functional.ctc_loss(scores, target, torch.full((4,), 32), lengths)

    train(torch.nn.Linear(16, 20), look, precision)


@program
def embedding_bag_sparse_gradients(precision):
    bag = torch.nn.EmbeddingBag(1000, 64, sparse=True)
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    train(bag, lambda m: m(tokens(8, 16, 1000)).float().square().mean(), type(precision)("fp32") if precision.name == "fp16" else precision, sgd)
