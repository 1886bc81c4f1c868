"""Networks of the transformers library, made from their configurations with random weights, as modules of one input
and one result. The library is imported when one is made."""

import torch
from torch import nn


class Picked(nn.Module):
    """A module of the library's that takes its input by name, and one of its results. What is exported has its
    attention in parts: on a GPU the exporter would give scaled_dot_product_attention in halves, with a mask, a
    result in fp32, which norms with weights in halves do not take."""

    def __init__(self, module, takes, gives):
        super().__init__()
        self.module, self.takes, self.gives = module, takes, gives

    def forward(self, x):
        if not torch.onnx.is_in_onnx_export():
            return getattr(self.module(**{self.takes: x}), self.gives)
        kind = self.module.config._attn_implementation
        self.module.set_attn_implementation("eager")
        y = getattr(self.module(**{self.takes: x}), self.gives)
        self.module.set_attn_implementation(kind)
        return y


def made(model, config, takes, gives, **sizes):
    import transformers

    return Picked(getattr(transformers, model)(getattr(transformers, config)(**sizes)), takes, gives)


def minilm():
    """all-MiniLM-L6: six layers of 384 channels."""
    return made("BertModel", "BertConfig", "input_ids", "last_hidden_state",
                hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)  # fmt: skip


def clip_image():
    """CLIP ViT-B/32's image tower."""
    return made("CLIPVisionModel", "CLIPVisionConfig", "pixel_values", "pooler_output")


def clip_text():
    return made("CLIPTextModel", "CLIPTextConfig", "input_ids", "last_hidden_state")


def dinov2():
    """DINOv2-B/14 at 518 x 518: 1,370 tokens."""
    return made("Dinov2Model", "Dinov2Config", "pixel_values", "last_hidden_state", image_size=518)


def sam_encoder():
    """SAM's ViT-B: windows of 14 x 14 tokens, and four layers that see all 64 x 64."""
    return made("SamVisionModel", "SamVisionConfig", "pixel_values", "last_hidden_state", global_attn_indexes=[2, 5, 8, 11])


def depth_anything():
    return made("DepthAnythingForDepthEstimation", "DepthAnythingConfig", "pixel_values", "predicted_depth")


def rt_detr():
    """RT-DETR with ResNet-50: the logits of its last decoder layer."""
    return made("RTDetrForObjectDetection", "RTDetrConfig", "pixel_values", "logits")


def conformer():
    """wav2vec 2.0's convolutions and six Conformer layers, on a second of samples."""
    return made("Wav2Vec2ConformerModel", "Wav2Vec2ConformerConfig", "input_values", "last_hidden_state", num_hidden_layers=6)


def wav2vec():
    """wav2vec 2.0 base, on a second of samples."""
    return made("Wav2Vec2Model", "Wav2Vec2Config", "input_values", "last_hidden_state")


def whisper_encoder():
    """Whisper-small's encoder, on thirty seconds."""
    import transformers

    sizes = {"d_model": 768, "encoder_layers": 12, "encoder_attention_heads": 12, "encoder_ffn_dim": 3072,
             "decoder_layers": 1}  # fmt: skip
    whole = transformers.WhisperModel(transformers.WhisperConfig(**sizes))
    return Picked(whole.encoder, "input_features", "last_hidden_state")


def t5_encoder():
    """T5-small's encoder."""
    return made("T5EncoderModel", "T5Config", "input_ids", "last_hidden_state")
