// Tests the reading of disassembled kernels and which of them are a step's.
#include "tools/MachineCode.h"

#include <gtest/gtest.h>

using namespace tenon;

namespace {

/// From the digits in fp16 for sm_75 and sm_87, shortened: whole functions were cut down to a few
/// of their lines.
const char *const kSass = R"sass(
Fatbin elf code:
================
arch = sm_75
code version = [1,8]
host = linux
compile_size = 64bit

	code for sm_75
	.target	sm_75

		Function : _ZN36_GLOBAL__N__13cc0e05_4_d_cu_4a837bdd5tenon4cuda5entryINS1_7variantILi870ELi870ELb0EEENS1_19contract_mma_kernelINS1_17tensor_cores_sm80ENS_32step6_block2_0_conv_sm_87_configENS1_12conv_problemIS7_NS0_4viewIK6__halfNS0_4dimsIJNS0_5fixedILl0EEENSD_ILl1EEENSD_ILl128EEENSD_ILl32EEEEEEEEEENS1_14packed_weightsISA_EENS0_9argumentsIJNS9_ISA_SI_EEEEENSN_IJNS9_IKfNSC_IJSE_SF_SE_SE_EEEEESJ_EEENS_24step3_block1_3_conv_bodyENS1_11no_prologueENSN_IJEEEEEEEvT0_NS1_10launch_tagE
	.headerflags	@"EF_CUDA_SM75 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM75)"
        /*0000*/                   MOV R1, c[0x0][0x28] ;                                          /* 0x00000a0000017a02 */
                                                                                                   /* 0x000fc60000000f00 */
        /*0010*/                   BPT.TRAP 0x1 ;                                                  /* 0x000000040000795c */
                                                                                                   /* 0x000fea0000300000 */
        /*0020*/                   BRA 0x20;                                                       /* 0xfffffff000007947 */
                                                                                                   /* 0x000fc0000383ffff */
		..........


		Function : _ZN36_GLOBAL__N__13cc0e05_4_d_cu_4a837bdd5tenon4cuda5entryINS1_7variantILi750ELi750ELb0EEENS1_19contract_mma_kernelINS1_17tensor_cores_sm75ENS_26step6_block2_0_conv_configENS1_12conv_problemIS7_NS0_4viewIK6__halfNS0_4dimsIJNS0_5fixedILl0EEENSD_ILl1EEENSD_ILl128EEENSD_ILl32EEEEEEEEEENS1_14packed_weightsISA_EENS0_9argumentsIJNS9_ISA_SI_EEEEENSN_IJNS9_IKfNSC_IJSE_SF_SE_SE_EEEEESJ_EEENS_24step3_block1_3_conv_bodyENS1_11no_prologueENSN_IJEEEEEEEvT0_NS1_10launch_tagE
	.headerflags	@"EF_CUDA_SM75 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM75)"
        /*0000*/                   IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ;                         /* 0x00000a00ff017624 */
                                                                                                   /* 0x000fe400078e00ff */
        /*0210*/               @P0 BRA 0x2d0 ;                                                     /* 0x000000b000000947 */
                                                                                                   /* 0x000fec0003800000 */
        /*1890*/                   HMMA.1688.F32 R24, R40, R28, R24 ;                              /* 0x0000001c2818723c */
                                                                                                   /* 0x001b6a0000001018 */
        /*18b0*/                   HMMA.1688.F32 R20, R40, R30, R20 ;                              /* 0x0000001e2814723c */
                                                                                                   /* 0x000f640000001014 */
		..........


		Function : _ZN36_GLOBAL__N__13cc0e05_4_d_cu_4a837bdd5tenon4cuda5entryINS1_7variantILi750ELi750ELb0EEENS1_19contract_mma_kernelINS1_17tensor_cores_sm75ENS_26step3_block1_3_conv_configENS1_12conv_problemIS7_NS0_4viewIK6__halfNS0_4dimsIJNS0_5fixedILl0EEENSD_ILl1EEENSD_ILl128EEENSD_ILl16EEEEEEEEEENS1_14packed_weightsISA_EENS0_9argumentsIJNS9_ISA_SI_EEEEENSN_IJNS9_IKfNSC_IJSE_SF_SE_SE_EEEEESJ_EEENS_24step3_block1_3_conv_bodyENS1_11no_prologueENSN_IJEEEEEEEvT0_NS1_10launch_tagE
	.headerflags	@"EF_CUDA_SM75 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM75)"
        /*0000*/                   IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ;                         /* 0x00000a00ff017624 */
                                                                                                   /* 0x000fe400078e00ff */
        /*01e0*/               @P1 BRA 0x2a0 ;                                                     /* 0x000000b000001947 */
                                                                                                   /* 0x000fea0003800000 */
        /*10c0*/                   HMMA.1688.F32 R24, R12, R40, RZ ;                               /* 0x000000280c18723c */
                                                                                                   /* 0x001f7000000010ff */
        /*10d0*/                   HMMA.1688.F32 R28, R12, R42, RZ ;                               /* 0x0000002a0c1c723c */
                                                                                                   /* 0x000f7000000010ff */
		..........



Fatbin elf code:
================
arch = sm_87
code version = [1,8]
host = linux
compile_size = 64bit

	code for sm_87
	.target	sm_87

		Function : _ZN36_GLOBAL__N__13cc0e05_4_d_cu_4a837bdd5tenon4cuda5entryINS1_7variantILi870ELi870ELb0EEENS1_19contract_mma_kernelINS1_17tensor_cores_sm80ENS_32step6_block2_0_conv_sm_87_configENS1_12conv_problemIS7_NS0_4viewIK6__halfNS0_4dimsIJNS0_5fixedILl0EEENSD_ILl1EEENSD_ILl128EEENSD_ILl32EEEEEEEEEENS1_14packed_weightsISA_EENS0_9argumentsIJNS9_ISA_SI_EEEEENSN_IJNS9_IKfNSC_IJSE_SF_SE_SE_EEEEESJ_EEENS_24step3_block1_3_conv_bodyENS1_11no_prologueENSN_IJEEEEEEEvT0_NS1_10launch_tagE
	.headerflags	@"EF_CUDA_SM87 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM87)"
        /*0000*/                   ISETP.NE.U32.AND P0, PT, RZ, UR2, PT ;                          /* 0x00000002ff007c0c */
                                                                                                   /* 0x000fda000bf05070 */
        /*0010*/               @P0 BRA 0x140 ;                                                     /* 0x0000012000000947 */
                                                                                                   /* 0x000fea0003800000 */
        /*1850*/                   HMMA.16816.F32 R20, R28.reuse, R32, R20 ;                       /* 0x000000201c14723c */
                                                                                                   /* 0x042ff00000001814 */
        /*1860*/                   HMMA.16816.F32 R32, R28, R34, R24 ;                             /* 0x000000221c20723c */
                                                                                                   /* 0x000fe20000001818 */
		..........


		Function : _ZN36_GLOBAL__N__13cc0e05_4_d_cu_4a837bdd5tenon4cuda5entryINS1_7variantILi870ELi870ELb0EEENS1_20contract_simt_kernelINS_32step3_block1_3_conv_sm_87_configENS1_12conv_problemIS6_NS0_4viewIK6__halfNS0_4dimsIJNS0_5fixedILl0EEENSC_ILl1EEENSC_ILl128EEENSC_ILl16EEEEEEEEEENS1_14packed_weightsIS9_EENS0_9argumentsIJNS8_IS9_SH_EEEEENSM_IJNS8_IKfNSB_IJSD_SE_SD_SD_EEEEESI_EEENS_24step3_block1_3_conv_bodyENS1_11no_prologueENSM_IJEEEEEEEvT0_NS1_10launch_tagE
	.headerflags	@"EF_CUDA_SM87 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM87)"
        /*0000*/                   ISETP.NE.U32.AND P0, PT, RZ, UR2, PT ;                          /* 0x00000002ff007c0c */
                                                                                                   /* 0x000fda000bf05070 */
        /*0010*/               @P0 BRA 0x140 ;                                                     /* 0x0000012000000947 */
                                                                                                   /* 0x000fea0003800000 */
        /*0270*/                   HFMA2.MMA R9, -RZ, RZ, 0, 1.9073486328125e-06 ;                 /* 0x00000020ff097435 */
                                                                                                   /* 0x000fc600000001ff */
		..........
)sass";

const TargetLevel &level(llvm::StringRef name) {
  for (const TargetLevel *l : allTargetLevels())
    if (l->name == name)
      return *l;
  ADD_FAILURE() << "no level " << name.str();
  return *allTargetLevels().front();
}

using Counts = std::map<std::string, unsigned>;

TEST(Sass, CountsTensorCoreInstructionsOfEachFunction) {
  const std::vector<KernelCode> kernels = parseSass(kSass);
  ASSERT_EQ(kernels.size(), 5u);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(kernels[i].machine, "sm_75");
  for (size_t i = 3; i < 5; ++i)
    EXPECT_EQ(kernels[i].machine, "sm_87");
  EXPECT_EQ(kernels[0].tensorCore, Counts{});
  EXPECT_EQ(kernels[0].instructions, 3u); // lines of encodings do not count
  EXPECT_EQ(kernels[1].tensorCore, (Counts{{"HMMA.1688.F32", 2}}));
  EXPECT_EQ(kernels[3].tensorCore, (Counts{{"HMMA.16816.F32", 2}}));
  EXPECT_EQ(kernels[3].tensorInstructions(), 2u);
  // HFMA2.MMA is none of them.
  EXPECT_EQ(kernels[4].tensorCore, Counts{});
  EXPECT_EQ(kernels[4].instructions, 3u);
  EXPECT_TRUE(llvm::StringRef(kernels[4].name).endswith("launch_tagE"));
}

TEST(Sass, KnowsTheMnemonicsOfEveryGeneration) {
  const std::vector<KernelCode> kernels = parseSass(R"(
	code for sm_90a
		Function : f
        /*0000*/              @!UP0 HGMMA.64x128x16.F32 R24, gdesc[UR12], R24, UP0 ;  /* 0x01 */
        /*0010*/                    IMMA.16832.S8.S8 R4, R2.ROW, R6.COL, R4 ;
        /*0020*/                    QGMMA.64x64x32.F32.E4M3.E4M3 R24, gdesc[UR8], R24, gsb0 ;
        /*0030*/                    UTCHMMA gdesc[UR6], gdesc[UR8], tmem[UR4], tmem[UR10], idesc[UR11], UP0 ;
        /*0040*/                    FFMA R0, R1, R2, R3 ;
        /*0050*/                    WARPGROUP.ARRIVE ;
)");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].instructions, 6u);
  EXPECT_EQ(kernels[0].tensorCore, (Counts{{"HGMMA.64x128x16.F32", 1},
                                           {"IMMA.16832.S8.S8", 1},
                                           {"QGMMA.64x64x32.F32.E4M3.E4M3", 1},
                                           {"UTCHMMA", 1}}));
  EXPECT_TRUE(parseSass("").empty());
  EXPECT_TRUE(parseSass("        /*0000*/  HMMA.1688.F32 R0, R1, R2, R3 ;\n").empty());
}

const std::string kBody = "step3_block1_3_conv_body", kSixth = "step6_block2_0_conv_config",
                  kSixth87 = "step6_block2_0_conv_sm_87_config",
                  kThird = "step3_block1_3_conv_config",
                  kThird87 = "step3_block1_3_conv_sm_87_config";

MachineCode digits() { return {parseSass(kSass), {kBody, kSixth, kSixth87, kThird, kThird87}}; }

/// The mnemonics of the only kernel; "?" when there is not one.
std::string only(llvm::ArrayRef<const KernelCode *> kernels) {
  if (kernels.size() != 1)
    return "?";
  std::string text;
  for (auto &[mnemonic, count] : kernels.front()->tensorCore)
    text += mnemonic;
  return text;
}

TEST(MachineCode, FindsKernelsByTheTypesOfTheirSteps) {
  const MachineCode code = digits();
  const auto sixth = code.kernelsOf(level("sm_75"), {kSixth, kBody});
  const auto third = code.kernelsOf(level("sm_75"), {kThird, kBody});
  EXPECT_EQ(only(sixth), "HMMA.1688.F32");
  EXPECT_EQ(only(third), "HMMA.1688.F32");
  EXPECT_NE(sixth, third); // the functor that they share does not make them one
  EXPECT_EQ(only(code.kernelsOf(level("sm_87"), {kSixth87, kBody})), "HMMA.16816.F32");
  EXPECT_EQ(only(code.kernelsOf(level("sm_87"), {kThird87, kBody})), "");
  // A functor that the kernel's type hides does no harm.
  EXPECT_EQ(only(code.kernelsOf(level("sm_87"), {kSixth87, kBody, "step6_pre"})), "HMMA.16816.F32");
}

TEST(MachineCode, LeavesOutTrapsAndKernelsOfOtherSteps) {
  const MachineCode code = digits();
  // In the code for sm_75 this one is a trap; for sm_90a there is no code.
  EXPECT_TRUE(code.kernelsOf(level("sm_75"), {kSixth87, kBody}).empty());
  EXPECT_TRUE(code.kernelsOf(level("sm_90a"), {kSixth87, kBody}).empty());
  EXPECT_TRUE(code.kernelsOf(level("sm_75"), {kSixth}).empty()); // the body is another's
  EXPECT_TRUE(code.kernelsOf(level("sm_75"), {}).empty());
}

} // namespace
